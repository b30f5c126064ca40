"""What the documents say is true: promises name tests that exist, keys are the keys, links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from edgeagent.contracts.alerts import Alert
from edgeagent.flows.alerts import CHECKS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def test_every_promise_of_the_readme_names_a_test_that_exists() -> None:
    named = re.findall(r"`(tests/[a-z_/]+\.py)::(test_[a-z0-9_]+)`", README)

    missing = [
        f"{file}::{test}"
        for file, test in named
        if not (ROOT / file).exists() or re.search(rf"def {test}\(", (ROOT / file).read_text("utf-8")) is None
    ]

    assert len(named) >= 10
    assert missing == []


@pytest.mark.requirement("H4")
def test_the_readme_has_every_configuration_key_with_its_default() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "edgeagent", "config", "keys"], capture_output=True, text=True, check=True
    ).stdout

    written = README.partition("<!-- edgeagent config keys -->\n")[2].partition("<!-- end -->")[0]

    assert written == told


@pytest.mark.parametrize(
    "page", ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
)
def test_links_within_the_project_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")

    dead = [
        target
        for target in re.findall(r"\]\(([^)#:]+)\)", text)
        if not ((ROOT / page).parent / target).exists()
    ]

    assert dead == []


@pytest.mark.requirement("O4")
def test_the_operators_page_lists_every_alert_with_its_check() -> None:
    page = (ROOT / "docs" / "operating.md").read_text("utf-8")
    table = page.partition("<!-- alerts -->")[2].partition("\n## ")[0]
    named = {alert: [check for check, called in CHECKS.items() if called is alert] for alert in Alert}
    checks = {alert: ", ".join(f"`{check}`" for check in found) for alert, found in named.items()}

    written = re.findall(r"^\| `([a-z_]+)` \| ([^|]+) \| ([^|]*?) ?\|$", table, re.MULTILINE)

    assert written == [(str(alert), alert.sentence, checks[alert]) for alert in Alert]


def test_the_words_of_the_readme_are_those_of_the_command_line() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "edgeagent", "--help"], capture_output=True, text=True, check=True
    ).stdout

    for word in ("run", "health", "status", "devices", "send", "commands", "outbox", "config", "issuer"):
        assert word in told
