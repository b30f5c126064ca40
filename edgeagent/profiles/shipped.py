"""The text of the shipped profiles.

Each family is one file beside this one. Nothing of it is trusted more than a profile that an operator
adds: both go through ``core/profile/load``.
"""

from importlib.resources import files


def shipped_profiles() -> list[bytes]:
    """The TOML of every shipped profile, in the order of the file names."""
    here = files("edgeagent.profiles")
    found = {entry.name: entry for entry in here.iterdir() if entry.name.endswith(".toml")}
    return [found[name].read_bytes() for name in sorted(found)]
