"""The page's files: what they are, where they come from, and that they ask for nothing from elsewhere."""

import hashlib
import re
from pathlib import Path

import pytest

from edgeagent.adapters.web.page import FILES

pytestmark = pytest.mark.requirement("H6")

OURS = [file for file in sorted(FILES.glob("*")) if file.is_file()]


def test_the_library_is_as_it_was_published() -> None:
    readme = (FILES / "uplot" / "README.md").read_text("utf-8")
    told = dict(re.findall(r"^\| `(\S+)` \| `([0-9a-f]{64})` \|$", readme, re.MULTILINE))
    scripts = {file.name: file for file in (FILES / "uplot").iterdir() if file.suffix in {".js", ".css"}}

    assert {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in scripts.items()} == told
    assert "MIT License" in (FILES / "uplot" / "LICENSE").read_text("utf-8")


@pytest.mark.parametrize("file", OURS, ids=lambda file: file.name)
def test_a_file_names_no_other_address_and_makes_no_markup_of_text(file: Path) -> None:
    text = file.read_text("utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")

    assert re.findall(r"https?:|//[a-z0-9.-]+\.[a-z]{2,}|@import|url\(", text) == []
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|new Function|\bstyle="
    assert re.findall(ways, text) == []
    assert len(text.splitlines()) <= 250


def test_the_first_file_has_neither_script_nor_style_of_its_own() -> None:
    text = (FILES / "index.html").read_text("utf-8")

    assert re.findall(r"<script(?![^>]* src=)|<style|\son[a-z]+=", text) == []
    named = re.findall(r'(?:src|href)="/page/([^"]+)"', text)
    assert len(named) == 5
    assert [name for name in named if not (FILES / name).is_file()] == []


@pytest.mark.parametrize("file", [file for file in OURS if file.suffix == ".js"], ids=lambda file: file.name)
def test_what_a_script_imports_is_there(file: Path) -> None:
    named = re.findall(r'from "/page/([^"]+)"', file.read_text("utf-8"))

    assert [name for name in named if not (FILES / name).is_file()] == []
