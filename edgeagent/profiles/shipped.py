"""The text of the shipped profiles.

Each family is one file beside this one. Nothing of it is trusted more than a profile that an operator
adds: both go through ``core/profile/load``.
"""

from pathlib import Path


def shipped_profiles() -> list[bytes]:
    """The TOML of every shipped profile, in the order of the file names."""
    return [file.read_bytes() for file in sorted(Path(__file__).parent.glob("*.toml"))]
