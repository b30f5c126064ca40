"""What crosses a boundary: good values pass, everything else is refused."""
