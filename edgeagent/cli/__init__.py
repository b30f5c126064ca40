"""The command line: one file for each noun, which parses, asks and prints."""
