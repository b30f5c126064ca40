"""What somebody may have meant who typed a word that there is not."""

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence, naming the word nearest to one that there is not; empty where none is near."""
    # Only those who mistype pay for it.
    from difflib import get_close_matches

    # The dashes of an option are in all of them, and make none nearer.
    by_letters = {each.strip("-"): each for each in sorted(set(known))}
    typed = word.lower().strip("-")
    # Half a word, where it can be half of one only; or one that looks much the same.
    begun = [letters for letters in by_letters if len(typed) > 1 and letters.startswith(typed)]
    near = begun if len(begun) == 1 else get_close_matches(typed, by_letters, n=1)
    return f"; did you mean {by_letters[near[0]]}?" if near else ""
