"""Whole venues out of real processes: what an outsider sees when they are killed, cut off and restarted."""
