"""What somebody may have meant who typed a word that there is not."""

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence, naming the word nearest to one that there is not; empty where none is near."""
    # Only those who mistype pay for it.
    from difflib import get_close_matches

    near = get_close_matches(word.lower(), sorted(set(known)), n=1)
    return f"; did you mean {near[0]}?" if near else ""
