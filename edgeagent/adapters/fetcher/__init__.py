"""The process that fetches, as the agent speaks to it."""
