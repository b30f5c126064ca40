"""The process that fetches: one errand for the agent, and then it ends."""
