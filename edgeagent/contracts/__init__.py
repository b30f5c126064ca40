"""What crosses a boundary: one door in, one model each."""
