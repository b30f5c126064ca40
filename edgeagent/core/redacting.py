"""Taking secrets out of text that leaves the hub (SPEC A2).

What is told is chosen so that there should be none in it. This is the second look, over every byte of it: at
secrets that are known by their value, in the spellings in which they might appear, and at whatever looks like
one. It takes out too much rather than too little, and says where it did.
"""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
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


# A name of fewer characters, or one that JSON has a meaning for, stands for something else in many a text.
_SHORTEST_NAME: Final = 4
_PLAIN: Final = re.compile(r"[ -@\[-`{-~]*|true|false|null|NaN|Infinity|[-+.\d]+[eE][-+]?\d+")
_NO_NAME: Final = re.compile(r"[ -/:-@\[-`{-~]*")
# What an escape ends with is a letter too, and no part of the word behind it.
_ESCAPES: Final = (r"\\[nrtbf]", r"\\x[0-9a-fA-F]{2}", r"\\u[0-9a-fA-F]{4}")
_DEEPEST: Final = 4


def spellings(secret: bytes) -> frozenset[str]:
    """How a secret might stand in a text: as it is, hexadecimal, base64, escaped, line by line."""
    found = {secret.hex(), secret.hex().upper()}
    for encode in (b64encode, urlsafe_b64encode):
        text = encode(secret).decode("ascii")
        found |= {text, text.rstrip("=")}
    try:
        text = secret.decode("utf-8").strip()
    except UnicodeDecodeError:
        return frozenset(each for each in found if len(each) >= SHORTEST)
    found |= {spelling for part in (text, *_lines(text)) for spelling in _written(part)}
    return frozenset(each for each in found if len(each) >= SHORTEST)


def _lines(text: str) -> Iterable[str]:
    """The lines of a key's file, each of which is a part of it."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if len(line) >= _FEWEST_OF_A_KEY and not line.startswith("-----")]


def _written(text: str) -> frozenset[str]:
    """How a text might stand within another: as it is, percent-encoded, as JSON, Python or both escape it."""
    raw = text.encode(errors="surrogatepass")  # a peer may have said half of a character
    python = {repr(text)[1:-1], ascii(text)[1:-1], ascii(f"{text}'\"")[1:-4], repr(raw)[2:-1]}
    once = {text, *_in_json(text), *python}
    return frozenset({quote(raw, safe=""), *once, *(twice for each in once for twice in _in_json(each))})


def _in_json(text: str) -> Iterable[str]:
    return [json.dumps(text, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)]


def _only_as(name: str, spelling: str) -> str:
    """Where a name is one, looked at from its end: in no word, number, id or hash, and as no key of JSON.

    One that is short or a number has to be a whole value, or a level of a topic.
    """
    word = re.escape(spelling)
    no_key = rf'(?<!"{word}(?=":))'
    if len(name) < _SHORTEST_NAME or _PLAIN.fullmatch(name):
        return rf"""(?<![^"'/]{word})(?![^"'/\\,])(?!,\d){no_key}"""
    places = [rf"(?<![\w-]{word})", *(f"(?<={escape}{word})" for escape in _ESCAPES)]
    begins = f"(?:{'|'.join(places)})" if re.match(r"\w", spelling) else ""
    ends = r"(?![\w-])" if re.search(r"\w\Z", spelling) else ""
    return begins + ends + no_key


def _any_of(words: Sequence[str], only: Mapping[str, str], depth: int = 0) -> str:
    """The pattern of many words, the longest first; by their first characters: few are tried at a place."""
    groups: dict[str, list[str]] = {}
    for word in words:
        groups.setdefault(word[depth : depth + 1], []).append(word)
    found: list[str] = []
    for sign, group in groups.items():
        if len(group) == 1 or depth == _DEEPEST:
            found += [re.escape(word[depth:]) + only[word] for word in group]
        else:
            found.append(f"{re.escape(sign)}(?:{_any_of(group, only, depth + 1)})")
    return "|".join(found)


class Redactor:
    """Takes secrets out.

    Args:
        secrets: those that are known, as bytes.
        names: what else is to be replaced by what; a person's name for a device by its id.
    """

    def __init__(self, secrets: Iterable[bytes] = (), names: Mapping[str, str] | None = None) -> None:
        self._words = {spelling: GONE for secret in secrets for spelling in spellings(secret)}
        only = dict.fromkeys(self._words, "")
        for name, word in (names or {}).items():
            for spelling in () if _NO_NAME.fullmatch(name) else _written(name):
                if self._words.setdefault(spelling, word) != GONE:
                    only.setdefault(spelling, _only_as(name, spelling))
        # The longest first: one may be the beginning of another.
        longest = sorted(only, key=len, reverse=True)
        self._known = re.compile(_any_of(longest, only)) if longest else None

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
