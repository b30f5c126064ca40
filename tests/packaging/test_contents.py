"""What is in the packages: where it lies, whose it is, what it is made of, and nothing besides."""

import json
import re
import subprocess
import tarfile
import tomllib
from collections import Counter
from functools import cache
from importlib.metadata import Distribution
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Final, cast

import pytest
from pydantic import JsonValue

from deb.architectures import DEFAULT, LEFT_OUT, PYTHONS
from deb.wheels import read_lock
from tests.support.packages import ROOT, VERSION, build, package, unpacked

pytestmark = [pytest.mark.requirement("H1"), pytest.mark.slow]

OWN: Final = "opt/edgeagent/lib"
MACHINES: Final = {"amd64": 62, "arm64": 183}
"""What the head of a compiled file calls them (elf(5), e_machine)."""
OF_LIBC: Final = ("ld-linux", "libc.so", "libdl.so", "libm.so", "libpthread.so", "librt.so")
both = pytest.mark.parametrize("architecture", DEFAULT)


@cache
def members(architecture: str) -> tuple[tarfile.TarInfo, ...]:
    """The files and folders of a package as dpkg will make them."""
    with subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", package(architecture)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            return tuple(archive)


def field(architecture: str, name: str) -> str:
    """A field of its control file."""
    command = ["dpkg-deb", "--field", str(package(architecture)), name]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def bill(architecture: str) -> dict[str, JsonValue]:
    """Its bill of materials."""
    text = (unpacked(architecture) / "usr/share/doc/edgeagent/sbom.cdx.json").read_bytes()
    value: dict[str, JsonValue] = json.loads(text)
    return value


def components(of: dict[str, JsonValue]) -> list[dict[str, JsonValue]]:
    """What a bill, or a part of it, is made of."""
    return cast("list[dict[str, JsonValue]]", of.get("components", []))


@both
def test_it_says_what_it_is_and_what_it_needs(architecture: str) -> None:
    assert package(architecture).name == f"edgeagent_{VERSION}_{architecture}.deb"
    assert (field(architecture, "Package"), field(architecture, "Version")) == ("edgeagent", VERSION)
    assert field(architecture, "Architecture") == architecture
    assert field(architecture, "Depends").startswith(
        "python3 (>= 3.11~), python3 (<< 3.14~), python3 (<< 3.12~) | python3 (>= 3.13~), "
    )
    # A guest brings no broker along
    assert "mosquitto" not in field(architecture, "Depends") + field(architecture, "Recommends")
    assert (unpacked(architecture) / "DEBIAN" / "conffiles").read_text() == "/etc/default/edgeagent\n"


@both
def test_everything_is_roots_and_lies_in_its_own_folder_or_where_debian_looks_for_it(
    architecture: str,
) -> None:
    listed = {member.name.removeprefix("./"): member for member in members(architecture)}

    outside = {
        name for name, member in listed.items() if member.isfile() and not name.startswith("opt/edgeagent/")
    }
    places = Counter(str(PurePosixPath(name).parent) for name in outside)
    assert {member.uname for member in listed.values()} == {"root"}
    assert {f"{member.mode:o}" for member in listed.values() if not member.issym()} == {"644", "755"}
    assert {name for name, member in listed.items() if member.isfile() and member.mode & 0o111} == {
        "opt/edgeagent/bin/edgeagent",
        "usr/share/python3/runtime.d/edgeagent.rtupdate",
    }
    assert listed["usr/bin/edgeagent"].linkname == "/opt/edgeagent/bin/edgeagent"
    assert set(places) == {
        "etc/default",
        "usr/lib/systemd/system",
        "usr/lib/sysusers.d",
        "usr/share/doc/edgeagent",
        "usr/share/doc/edgeagent/docs",
        "usr/share/lintian/overrides",
        "usr/share/man/man1",
        "usr/share/python3/runtime.d",
    }


@both
def test_the_agent_is_the_one_that_is_in_the_repository_and_brings_no_tests(architecture: str) -> None:
    names = {member.name.removeprefix("./") for member in members(architecture) if member.isfile()}
    committed = subprocess.run(
        ["git", "ls-files", "edgeagent"], cwd=ROOT, capture_output=True, text=True, check=True
    )

    agent = {name.removeprefix(f"{OWN}/") for name in names if name.startswith(f"{OWN}/edgeagent/")}
    assert agent >= {name for name in committed.stdout.splitlines() if (ROOT / name).exists()}
    assert [name for name in agent if not (ROOT / name).exists()] == []
    assert [name for name in names if re.search(r"/(tests?|__pycache__)/|\.pyc$|\.pyi$|\.c$", name)] == []


@both
def test_compiled_modules_are_there_for_each_python_and_need_what_debian_has(architecture: str) -> None:
    modules = list((unpacked(architecture) / OWN).rglob("*.so"))
    assert {int.from_bytes(module.read_bytes()[18:20], "little") for module in modules} == {
        MACHINES[architecture]
    }

    # Each is there for all Pythons, or for whichever is used
    stems = Counter(
        re.sub(r"\.(cpython-\d+|abi3).*", "", str(module))
        for module in modules
        if ".abi3." not in module.name
    )
    assert set(stems.values()) == {len(PYTHONS)}
    for python in PYTHONS:
        assert any(f"cpython-{python.replace('.', '')}-" in module.name for module in modules)

    # Debian 12 has version 2.36 of the C library
    said = subprocess.run(["readelf", "-dV", *modules], capture_output=True, text=True, check=True).stdout
    needed = set(re.findall(r"NEEDED.*\[(.+)\]", said))
    assert {name for name in needed if not name.startswith(OF_LIBC)} <= {"libgcc_s.so.1", "libstdc++.so.6"}
    assert max(int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", said)) <= 36


@both
def test_its_bill_of_materials_is_of_the_official_form_and_names_all_that_is_in_it(architecture: str) -> None:
    # Read where they are needed: each process that collects the tests would read them.
    from jsonschema import Draft7Validator
    from referencing import Registry
    from referencing.jsonschema import DRAFT7

    found = bill(architecture)

    schemas = files("cyclonedx.schema._res")
    registry: Registry[JsonValue] = Registry()
    for name in ("spdx.SNAPSHOT.schema.json", "jsf-0.82.SNAPSHOT.schema.json"):
        content = json.loads(schemas.joinpath(name).read_text("utf-8"))
        resource = DRAFT7.create_resource(content)
        registry = registry.with_resources(
            [(name, resource), (f"http://cyclonedx.org/schema/{name}", resource)]
        )
    schema = json.loads(schemas.joinpath("bom-1.6.SNAPSHOT.schema.json").read_text("utf-8"))
    assert [fault.message for fault in Draft7Validator(schema, registry=registry).iter_errors(found)] == []

    named = {
        f"{each['name']}=={each['version']}" for each in components(found) if "pypi" in str(each["purl"])
    }
    assert named == {
        f"{pin.name}=={pin.version}" for pin in read_lock(ROOT / "packaging" / "requirements.lock")
    }
    assert all(each["licenses"] for each in components(found))
    # What was compiled into a library stands below it
    inner = {str(each["name"]): components(each) for each in components(found)}
    assert any(str(each["purl"]).startswith("pkg:generic/openssl@") for each in inner["cryptography"])
    assert inner["pydantic-core"]


@both
def test_the_licences_of_all_that_is_in_it_are_told(architecture: str) -> None:
    folder = unpacked(architecture)
    text = (folder / "usr/share/doc/edgeagent/copyright").read_text("utf-8")

    stanzas = re.findall(r"(?m)^Files: (.+)$", text)
    covered = {PurePosixPath(name).parts[3] for line in stanzas for name in line.split() if name != "*"}
    lying = {path.name for path in (folder / OWN).iterdir()}
    assert lying - covered - {"edgeagent", f"edgeagent-{VERSION}.dist-info"} == set()
    assert "edgeagent/adapters/web/static" in text or not list((folder / OWN / "edgeagent").rglob("LICENSE"))


def test_what_the_agent_asks_for_is_told_by_its_metadata() -> None:
    """A support bundle tells the versions of all that it names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    own = Distribution.at(unpacked("amd64") / OWN / f"edgeagent-{VERSION}.dist-info")

    assert own.requires == project["dependencies"]


def test_what_is_pinned_is_what_the_agent_asks_for_and_no_more() -> None:
    """So that whoever adds a dependency is told to lock it."""
    pinned = {pin.name for pin in read_lock(ROOT / "packaging" / "requirements.lock")}
    text = (ROOT / "pyproject.toml").read_text("utf-8").partition("dependencies = [")[2].partition("\n]")[0]
    asked = set(re.findall(r'^    "([a-z0-9-]+)', text, re.MULTILINE))

    assert asked - pinned == {"tzdata"}
    assert pinned.isdisjoint(LEFT_OUT)
    assert "://" not in (ROOT / "packaging" / "requirements.lock").read_text()


def test_the_same_commit_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        build(tmp_path / name, "arm64")

    one, two = (next((tmp_path / name).iterdir()).read_bytes() for name in ("one", "two"))

    assert one == two


def test_debians_own_checker_has_nothing_to_say() -> None:
    command = ["lintian", "--allow-root", "--fail-on", "error,warning", str(package())]

    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)

    assert (said.returncode, said.stdout) == (0, "")
