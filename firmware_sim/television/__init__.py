"""A television that somebody has taken over: it harms whoever is on the same network."""
