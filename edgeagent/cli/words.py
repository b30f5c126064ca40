"""The shape of a noun's words, for the parsers."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Nouns = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - argparse has no public name for it
else:
    Nouns = argparse.Action
