"""What comes in and what becomes of it, as data that other programs can read too."""
