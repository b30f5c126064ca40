"""Taking secrets out of text that leaves the hub (SPEC A2).

What is told is chosen so that there should be none in it. This is the second look, over every byte of it: at
secrets that are known by their value, in the spellings in which they might appear, and at whatever looks like
one. It takes out too much rather than too little, and says where it did.
"""

import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

GONE: Final = "[redacted]"
"""Stands where something was."""
SHORTEST: Final = 6
"""Shorter secrets are not looked for by value: they would be found everywhere."""

_FEWEST_OF_A_KEY: Final = 16
_NAMES: Final = (
    r"pass(?:word|phrase|wd|code)?|secret|token|api[_-]?key|private[_-]?key|credentials?|authorization|"
    r"claim(?:[_-]?code)?|psk|cookie|set-cookie"
)
# Each with what is put in its place. The first ones are the most certain.
_LOOKS_LIKE: Final = (
    # RFC 7468: a private key of any kind; a certificate is public.
    (
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
        ),
        GONE,
    ),
    # RFC 3986 3.2.1: what stands before the last @ of an address; a password that was typed may hold one.
    (re.compile(r"([A-Za-z][A-Za-z0-9+.-]{1,20}://)[^\s/\"'<>]{1,512}@"), rf"\1{GONE}@"),
    # RFC 6750, RFC 7617.
    (re.compile(r"\b(bearer|basic)(\s+|%20)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE), rf"\1 {GONE}"),
    # The code that a hub is set up with, however it is spaced.
    (re.compile(r"\bEA1(?:[-\s]*[A-Z2-7]{8}){10,}(?:[-\s]*[A-Z2-7]{1,8}\b)?", re.IGNORECASE), GONE),
    # RFC 7519.
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*"), GONE),
)
# A name that says what it is, and what it is given; JSON within JSON too. Behind a dot or a slash it is the
# end of a file's name, and a colon begins what is said of it.
_GIVEN: Final = r"""(\\?"(?:[^"\\]|\\[^"])*\\?"|'[^']*'|[^\s,;&}\]"'\\]+)"""
_NAMED: Final = (
    re.compile(rf"""((?<![A-Za-z./])(?:{_NAMES})\\?["']?\s{{0,4}}[:=]\s{{0,4}}){_GIVEN}""", re.IGNORECASE),
    re.compile(rf"""((?<=[./])(?:{_NAMES})\s{{0,4}}=\s{{0,4}}){_GIVEN}""", re.IGNORECASE),
)


def spellings(secret: bytes) -> frozenset[str]:
    """How a secret might stand in a text: as it is, hexadecimal, base64, percent-encoded, line by line."""
    found = {secret.hex(), secret.hex().upper()}
    for encode in (b64encode, urlsafe_b64encode):
        text = encode(secret).decode("ascii")
        found |= {text, text.rstrip("=")}
    try:
        text = secret.decode("utf-8").strip()
    except UnicodeDecodeError:
        return frozenset(each for each in found if len(each) >= SHORTEST)
    found |= {text, quote(text, safe=""), *_lines(text)}
    return frozenset(each for each in found if len(each) >= SHORTEST)


def _lines(text: str) -> Iterable[str]:
    """The lines of a key's file, each of which is a part of it."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if len(line) >= _FEWEST_OF_A_KEY and not line.startswith("-----")]


class Redactor:
    """Takes secrets out.

    Args:
        secrets: those that are known, as bytes.
        names: what else is to be replaced by what; a person's name for a device by its id.
    """

    def __init__(self, secrets: Iterable[bytes] = (), names: Mapping[str, str] | None = None) -> None:
        known = {spelling: GONE for secret in secrets for spelling in spellings(secret)}
        known |= {name: word for name, word in (names or {}).items() if name not in known}
        # The longest first: one may be the beginning of another.
        longest = sorted(known, key=len, reverse=True)
        self._words = known
        self._known = re.compile("|".join(re.escape(word) for word in longest)) if longest else None

    def clean(self, text: str) -> tuple[str, int]:
        """Take out what is secret.

        Returns:
            The rest, and how often something was taken out.
        """
        count = 0
        if self._known is not None:
            text, count = self._known.subn(lambda found: self._words[found[0]], text)
        for pattern, instead in _LOOKS_LIKE:
            text, more = pattern.subn(instead, text)
            count += more
        for pattern in _NAMED:
            text, more = pattern.subn(_in_its_quotes, text)
            count += more
        return text, count


def _in_its_quotes(found: re.Match[str]) -> str:
    """What stands in the place of a value, in the quotes that it had: what was JSON stays JSON."""
    value = found[2]
    quote_ = next((each for each in ('\\"', '"', "'") if value.startswith(each)), "")
    return f"{found[1]}{quote_}{GONE}{quote_ if value.endswith(quote_) else ''}"
