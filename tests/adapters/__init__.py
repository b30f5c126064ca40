"""The outside, as it really behaves."""
