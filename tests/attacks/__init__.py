"""Stories of attackers, each told twice: it is refused, and nothing has changed."""
