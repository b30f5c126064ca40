"""How much the agent achieves, measured beside a minimal reference program in the same run."""
