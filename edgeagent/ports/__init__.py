"""What the flows need of the outside, each named by the need.

An adapter keeps one of these promises; a test's fake keeps the same, and one suite holds both to it.
"""
