"""The stories of a venue: each a file that says what it shows, does it, and states what the witnesses saw."""
