"""Device profiles: what a file may say, and what comes of it."""
