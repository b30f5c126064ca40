"""Tasmota: commands on ``cmnd``, answers on ``stat``, telemetry on ``tele``."""
