"""Which requirement is proven by which test.

A test that proves one says so: ``@pytest.mark.requirement("Q3")``. The marks are read from the text of
the tests, so that a file that is skipped or not chosen counts too.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

TESTS = Path(__file__).parent

# How many requirements each chapter of the specification has.
CHAPTERS: Final[Mapping[str, int]] = {
    "Q": 9,
    "L": 7,
    "C": 6,
    "V": 7,
    "T": 9,
    "I": 3,
    "E": 4,
    "D": 3,
    "S": 3,
    "B": 5,
    "A": 4,
    "O": 6,
    "U": 8,
    "M": 11,
    "G": 3,
    "N": 1,
    "P": 3,
    "F": 6,
    "W": 3,
    "H": 9,
    "X": 1,
    "R": 8,
}
IDS: Final = tuple(f"{chapter}{n}" for chapter, count in CHAPTERS.items() for n in range(1, count + 1))

# Requirements that the running agent keeps as a whole, each with a test that says so.
COMPLETED: Final = frozenset(
    f"{chapter}{number}"
    for chapter, numbers in {
        "A": (1, 2, 3, 4),
        "B": (1, 2, 3, 4, 5),
        "C": (1, 2, 3, 4, 5, 6),
        "D": (1, 2, 3),
        "E": (1, 2, 3),
        "F": (1, 2, 3, 4, 5, 6),
        "H": (1, 2, 3, 4, 5, 6, 7),
        "I": (1, 2, 3),
        "L": (1, 2, 3, 4, 5, 6, 7),
        "M": (2, 6, 7),
        "O": (2, 3, 4, 5, 6),
        "P": (1, 2),
        "Q": (1, 2, 3, 4, 5, 6, 7, 8, 9),
        "R": (1, 2, 3, 4, 5, 6, 8),
        "S": (1, 2, 3),
        "T": (1, 2, 3, 4, 5, 6, 7, 8, 9),
        "U": (1, 4, 7),
        "V": (1, 2, 3, 4, 5, 6, 7),
        "W": (1, 2, 3),
    }.items()
    for number in numbers
)


def marks(text: str) -> Iterator[tuple[int, str | None]]:
    """The ids that the tests in a file name, each with its line; None for what is no literal text."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.requirement":
            literals = [arg.value if isinstance(arg, ast.Constant) else None for arg in node.args]
            if not literals or node.keywords:
                yield node.lineno, None
            for literal in literals:
                yield node.lineno, literal if isinstance(literal, str) else None


def proofs(folder: Path) -> dict[str | None, list[str]]:
    """For each id that is named the places that name it."""
    found: dict[str | None, list[str]] = defaultdict(list)
    for path in sorted(folder.rglob("test_*.py")):
        for line, requirement in marks(path.read_text("utf-8")):
            found[requirement].append(f"{path.relative_to(folder)}:{line}")
    return dict(found)


def test_every_test_names_requirements_that_there_are() -> None:
    unknown = {name: places for name, places in proofs(TESTS).items() if name not in IDS}

    assert unknown == {}


def test_every_completed_requirement_has_a_test() -> None:
    proven = proofs(TESTS)

    assert [name for name in IDS if name in COMPLETED and name not in proven] == []
    assert set(IDS) >= COMPLETED


def test_requirements_without_a_test_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    proven = proofs(TESTS)
    missing = [name for name in IDS if name not in proven]

    with capsys.disabled():
        sys.stdout.write(f"\nno test names {len(missing)} of {len(IDS)}: {' '.join(missing)}\n")

    assert len(missing) + len(set(proven) & set(IDS)) == len(IDS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('@pytest.mark.requirement("Q1")\ndef test(): ...', [(1, "Q1")], id="one"),
        pytest.param('@pytest.mark.requirement("Q1", "Z9")\nclass A: ...', [(1, "Q1"), (1, "Z9")], id="two"),
        pytest.param('pytestmark = pytest.mark.requirement("Q1")', [(1, "Q1")], id="a whole file"),
        pytest.param('pytestmark = [1, pytest.mark.requirement("Q1")]', [(1, "Q1")], id="a list"),
        pytest.param('pytest.param(1, marks=pytest.mark.requirement("Q1"))', [(1, "Q1")], id="one case"),
        pytest.param("@pytest.mark.requirement()\ndef test(): ...", [(1, None)], id="nothing"),
        pytest.param("@pytest.mark.requirement(NAME)\ndef test(): ...", [(1, None)], id="no literal"),
        pytest.param("@pytest.mark.requirement(1)\ndef test(): ...", [(1, None)], id="no text"),
        pytest.param("@pytest.mark.slow\ndef test(): ...", [], id="another mark"),
    ],
)
def test_marks_are_read_from_the_text(text: str, expected: list[tuple[int, str | None]]) -> None:
    assert list(marks(text)) == expected
