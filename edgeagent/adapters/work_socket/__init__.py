"""The work socket: claims go out to the isolated worker and come back (SPEC W1)."""
