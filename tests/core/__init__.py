"""The rules, as functions of values."""
