"""What the documents say is true: promises name tests that exist, keys are the keys, links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from edgeagent.config import load
from edgeagent.contracts.alerts import Alert
from edgeagent.flows.alerts import CHECKS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
PAGES = [
    "README.md",
    "SECURITY.md",
    "CHANGELOG.md",
    *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
]


def prose(page: str) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", (ROOT / page).read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: str) -> set[str]:
    """What its headings are called in addresses, as GitHub does it."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(("page", "least"), [("README.md", 10), ("docs/security.md", 40)])
def test_every_promise_of_a_page_names_a_test_that_exists(page: str, least: int) -> None:
    named = re.findall(r"`(tests/[a-z0-9_/]+\.py)::(test_[a-z0-9_]+)`", prose(page))

    missing = [
        f"{file}::{test}"
        for file, test in named
        if not (ROOT / file).exists() or re.search(rf"def {test}\(", (ROOT / file).read_text("utf-8")) is None
    ]

    assert len(named) >= least
    assert missing == []
    assert prose(page).count("::test_") == len(named)


@pytest.mark.requirement("H4")
def test_the_page_of_the_configuration_has_every_key_as_the_model_has_it() -> None:
    """Where it differs: put what ``edgeagent config keys --markdown`` prints in its place."""
    told = subprocess.run(
        [sys.executable, "-m", "edgeagent", "config", "keys", "--markdown"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    page = (ROOT / "docs" / "configuration.md").read_text("utf-8")

    written = page.partition("<!-- edgeagent config keys --markdown -->\n")[2].partition("<!-- end -->")[0]

    assert written == told


@pytest.mark.requirement("H4")
def test_the_example_of_the_page_is_in_order(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    (tmp_path / "config.toml").write_text(page.partition("```toml\n")[2].partition("```")[0], "utf-8")

    assert load(tmp_path / "config.toml").hub.id == "venue-7"


@pytest.mark.requirement("H4")
@pytest.mark.parametrize("page", ["docs/connecting.md", "docs/issuing.md", "docs/operating.md"])
def test_the_parts_of_a_configuration_that_a_page_shows_are_in_order(page: str, tmp_path: Path) -> None:
    parts = re.findall(r"^```toml\n(.*?)^```", (ROOT / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)

    assert parts
    for part in parts:
        (tmp_path / "config.toml").write_text(f'[hub]\nid = "venue-7"\n{part}', "utf-8")
        assert load(tmp_path / "config.toml").hub.id == "venue-7"


@pytest.mark.parametrize("page", PAGES)
def test_links_within_the_project_lead_somewhere(page: str) -> None:
    """Each to a file that is there and, behind a #, to one of its headings."""
    dead = []
    for target in re.findall(r"\]\(([^)\s:]+)\)", prose(page)):
        path, _, heading = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        is_there = file.resolve().is_relative_to(ROOT) and file.exists()
        if not is_there or (heading and heading not in anchors(str(file.resolve().relative_to(ROOT)))):
            dead.append(target)

    assert dead == []


def test_the_changelog_has_its_chapters_newest_first_and_each_kind_once() -> None:
    """In the form of Keep a Changelog; the package takes the newest chapter for its own."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    chapters = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    head = re.compile(r"(?:\[Unreleased\]|\[(\d+)\.(\d+)\.(\d+)\] - \d{4}-\d\d-\d\d)$", re.MULTILINE)
    heads = [head.match(each) for each in chapters]
    released = [tuple(map(int, found.groups())) for found in heads if found and found[1]]
    kinds = [re.findall(r"^### (\w+)$", each, re.MULTILINE) for each in chapters]

    assert all(heads)
    assert len(released) >= 2
    assert released == sorted(released, reverse=True)
    allowed = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert all(found and set(found) <= allowed and len(found) == len(set(found)) for found in kinds)


@pytest.mark.requirement("H6")
def test_the_operators_page_lists_every_report_of_the_hubs_page() -> None:
    code = "".join(
        (ROOT / "edgeagent/adapters/web" / file).read_text("utf-8") for file in ("api.py", "page.py")
    )
    page = (ROOT / "docs" / "operating.md").read_text("utf-8")
    served = {
        re.sub(r"{(\w+)}", lambda name: name[1].upper(), path) for path in re.findall(r'"(/api/[^"]+)"', code)
    }

    assert len(served) > 10
    assert served == set(re.findall(r"`(/api/[^`]+)`", page))


def test_the_readme_leads_to_every_page() -> None:
    linked = set(re.findall(r"\]\(([^)#\s]+)", README))

    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").iterdir() if path.is_file()}

    assert pages | {"SECURITY.md", "CHANGELOG.md"} <= linked


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
