"""Files that are nobody else's: keys, tokens, passphrases."""

from pathlib import Path


def write_private(path: Path, content: str) -> None:
    """Write a file that only its owner may use, from its first byte on."""
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(content, "utf-8")
