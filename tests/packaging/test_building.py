"""How the package is put together from wheels: by hashes, without contradictions, and else not at all."""

import hashlib
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deb.__main__ import main
from deb.architectures import ARCHITECTURES
from deb.control import debian_version
from deb.licences import copyright_file, expression
from deb.vendored import vendored
from deb.wheels import BuildError, Pin, fetch, read_lock, unpack

pytestmark = pytest.mark.requirement("H1")

METADATA = "Metadata-Version: 2.4\nName: Some_Thing\nVersion: 1.0\nLicense-Expression: MIT\n"
LICENCE = "Copyright (c) 2020 Somebody\n\nDo as you like.\n"


def wheel(folder: Path, tag: str = "py3-none-any", metadata: str = METADATA, **held: str) -> Path:
    """A wheel of ``some-thing`` with these modules."""
    folder.mkdir(exist_ok=True)
    path = folder / f"some_thing-1.0-{tag}.whl"
    info = "some_thing-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        archive.writestr(f"{info}/licenses/LICENSE", LICENCE)
        archive.writestr(f"{info}/RECORD", "")
        for name, text in held.items():
            archive.writestr(f"some_thing/{name}.py", text)
        archive.writestr("some_thing/tests/test_it.py", "assert True")
    return path


def test_wheels_for_several_pythons_lie_in_one_folder_without_tests_and_records(tmp_path: Path) -> None:
    wheels = [
        wheel(tmp_path, tag, same="x = 1", **{tag: "y = 2"}) for tag in ("cp311-cp311-any", "cp313-cp313-any")
    ]

    found = unpack(wheels, tmp_path / "lib")

    lying = {
        str(path.relative_to(tmp_path / "lib")) for path in (tmp_path / "lib").rglob("*") if path.is_file()
    }
    assert lying == {
        "some_thing/same.py",
        "some_thing/cp311-cp311-any.py",
        "some_thing/cp313-cp313-any.py",
        "some_thing-1.0.dist-info/METADATA",
    }
    assert [(each.name, each.version, len(each.wheels)) for each in found] == [("some-thing", "1.0", 2)]


def test_wheels_that_disagree_about_a_file_are_refused(tmp_path: Path) -> None:
    wheels = [wheel(tmp_path / tag, f"{tag}-{tag}-any", same=f"x = '{tag}'") for tag in ("cp311", "cp313")]

    with pytest.raises(BuildError, match=r"some_thing/same.py is another"):
        unpack(wheels, tmp_path / "lib")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that pip takes instead of any index."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def test_a_wheel_is_taken_by_its_hash_and_kept_for_the_next_build(tmp_path: Path, index: Path) -> None:
    path = wheel(index, same="x = 1")
    pin = Pin("some-thing", "1.0", (hashlib.sha256(path.read_bytes()).hexdigest(),))

    first = fetch([pin], ARCHITECTURES["arm64"], tmp_path / "cache")
    path.unlink()
    second = fetch([pin], ARCHITECTURES["arm64"], tmp_path / "cache")

    assert [each.name for each in first] == [path.name, path.name]
    assert second == first


@pytest.mark.slow
def test_of_two_builds_at_once_both_have_all_wheels(tmp_path: Path, index: Path) -> None:
    path, cache = wheel(index, same="x = 1"), tmp_path / "cache"
    pin = Pin("some-thing", "1.0", (hashlib.sha256(path.read_bytes()).hexdigest(),))
    with ThreadPoolExecutor() as both:
        builds = [both.submit(fetch, [pin], ARCHITECTURES["arm64"], cache) for _ in range(2)]

    one, other = (build.result() for build in builds)

    assert one == other
    assert [each.name for each in one] == [path.name, path.name]
    assert len(list(cache.iterdir())) == 2


def test_a_wheel_with_another_hash_is_refused_and_not_kept(tmp_path: Path, index: Path) -> None:
    wheel(index, same="import os; os.system('evil')")

    with pytest.raises(BuildError, match="HASH"):
        fetch([Pin("some-thing", "1.0", ("0" * 64,))], ARCHITECTURES["arm64"], tmp_path / "cache")

    assert list((tmp_path / "cache").iterdir()) == []


def test_a_lock_file_without_pins_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("aiohttp>=3\n")

    with pytest.raises(BuildError, match="no distribution is pinned"):
        read_lock(tmp_path / "lock")


@pytest.mark.parametrize(
    ("version", "debians"),
    [
        ("1.2.0", "1.2.0"),
        ("1.2.0rc1", "1.2.0~rc1"),
        ("1.2.0.dev3", "1.2.0~dev3"),
        ("1.2.0+bar.1", "1.2.0+bar.1"),
    ],
)
def test_what_comes_before_a_release_sorts_before_it(version: str, debians: str) -> None:
    assert debian_version(version) == debians


@pytest.mark.parametrize("version", ["", "one", "1.0-1", "1.0; rm -rf /", "1.0\n", "1.0/../.."])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(BuildError, match="a version is like"):
        debian_version(version)


def test_a_licence_is_told_with_its_holders_and_one_that_is_missing_stops_the_build(tmp_path: Path) -> None:
    found = unpack([wheel(tmp_path)], tmp_path / "lib")
    text = copyright_file(found, [])
    assert "Files: opt/edgeagent/lib/some_thing/* opt/edgeagent/lib/some_thing-1.0.dist-info/*" not in text
    assert "Copyright: (c) 2020 Somebody" in text
    assert "\n Do as you like.\n" in text

    nameless = unpack(
        [wheel(tmp_path / "other", metadata=METADATA.replace("License-Expression: MIT\n", ""))], tmp_path
    )
    with pytest.raises(BuildError, match="name no licence"):
        expression(nameless[0])


def test_a_library_in_the_agents_own_tree_has_to_say_what_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "static" / "chart"
    folder.mkdir(parents=True)
    (folder / "LICENSE").write_text(LICENCE)
    with pytest.raises(BuildError, match="which library this is"):
        vendored(tmp_path)

    (folder / "README.md").write_text("# Chart 1.6.2\n\nMIT licence, from the npm package `chart`.\n")

    assert [(each.name, each.version, each.licence, each.package) for each in vendored(tmp_path)] == [
        ("Chart", "1.6.2", "MIT", "chart")
    ]


def test_wrong_words_and_a_wrong_version_build_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--version", "next one", "--out", str(tmp_path / "out")]) == 1
    assert "a version is like 1.2.0" in capsys.readouterr().err

    with pytest.raises(SystemExit):
        main(["--arch", "sparc", "--out", str(tmp_path / "out")])

    assert list((tmp_path / "out").glob("*")) == []
