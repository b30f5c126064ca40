"""Every check of ``edgeagent health`` stands in the operator's page, with what to do (SPEC O5)."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from edgeagent.flows.alerts import CHECKS

ROOT: Final = Path(__file__).parent.parent
MAKERS: Final = {"_check", "_unknown", "Probe"}
"""What makes a check of the name that is its first argument."""
ELSEWHERE: Final = ROOT / "edgeagent" / "setup"
"""What other words look at: ``setup check`` and ``broker check``."""
BY_SESSION: Final = {"broker-control", "broker-telemetry"}
"""Those whose name is put together."""


def named() -> Iterator[str]:
    """The names of all checks that the code can make."""
    for path in (ROOT / "edgeagent").rglob("*.py"):
        # What `setup check` and `broker check` look at is told by them.
        if path.is_relative_to(ROOT / "edgeagent" / "setup"):
            continue
        text = path.read_text("utf-8")
        if ELSEWHERE in path.parents:
            continue
        if "contracts.reports.health" not in text and "machine.probe" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call):
                yield from _of(node)
            elif isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [
                "name"
            ]:
                yield from _texts([node.value])


def _of(call: ast.Call) -> Iterator[str]:
    callee = ast.unparse(call.func)
    places = [word.value for word in call.keywords if callee == "Check" and word.arg == "name"]
    if callee in MAKERS:
        places += call.args[:1]
    yield from _texts(places)


def _texts(places: Iterable[ast.expr]) -> Iterator[str]:
    """Those that are written out."""
    for place in places:
        if isinstance(place, ast.Constant) and isinstance(place.value, str):
            yield place.value


@pytest.mark.requirement("O5")
def test_the_operators_page_has_every_check_with_what_to_do() -> None:
    page = (ROOT / "docs" / "operating.md").read_text("utf-8")
    table = page.partition("<!-- checks -->")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z0-9_-]+)` \| ([^|]+) \| ([^|]+) \|$", table, re.MULTILINE)

    names = [name for name, _, _ in rows]

    assert len(names) == len(set(names))
    assert set(names) == set(named()) | BY_SESSION
    assert all(meaning.strip().endswith(".") and advice.strip() for _, meaning, advice in rows)
    assert set(CHECKS) <= set(names)
