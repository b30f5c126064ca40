"""The configuration of the policy: a signed file or a repository, whole, and by no way that others read."""

from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.config import Config, load
from edgeagent.errors import ConfigurationError
from tests.cli.building import typed
from tests.support.clocks import NOON
from tests.support.tuf_repository import Repository

pytestmark = pytest.mark.requirement("H4", "T2")

SIGNER = "ab" * 32
FILE, KEY = 'file = "policy.json"', f'signer = "{SIGNER}"'
SOURCE, ROOT = 'source = "https://example.org/policy/"', 'root = "root.json"'


def written(folder: Path, *lines: str) -> Config:
    """A configuration with these lines in its section of the policy."""
    path = folder / "config.toml"
    path.write_text("\n".join(['[hub]\nid = "venue-7"\n[policy]', *lines, ""]), "utf-8")
    return load(path)


def test_a_repository_is_looked_at_every_hour_unless_told_otherwise(tmp_path: Path) -> None:
    policy = written(tmp_path, SOURCE, ROOT).policy
    other = written(tmp_path, SOURCE, ROOT, 'refresh = "10m"', 'ca_file = "ca.pem"').policy

    assert policy is not None
    assert (policy.source, policy.root) == ("https://example.org/policy", Path("root.json"))
    assert (policy.refresh, policy.ca_file) == (timedelta(hours=1), None)
    assert other is not None
    assert (other.refresh, other.ca_file) == (timedelta(minutes=10), Path("ca.pem"))


@pytest.mark.parametrize(
    "source",
    [
        "/media/policy",
        "http://127.0.0.1:8080",
        "http://localhost/policy",
        "http://[::1]:80",
        "https://example.org",
    ],
)
def test_where_it_is_published_may_be_an_address_or_a_folder(tmp_path: Path, source: str) -> None:
    policy = written(tmp_path, f'source = "{source}"', ROOT).policy

    assert policy is not None
    assert policy.source == source


@pytest.mark.parametrize(
    "source",
    [
        "http://example.org/policy",
        "http://127.0.0.1.example.org",
        "ftp://example.org",
        "file:///media/policy",
        "https://user:secret@example.org",
        "https://example.org/?a=b",
        "https://",
        "https://example.org:port",
        "https://[::1",
        "media/policy",
        "",
    ],
)
def test_another_place_is_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(ConfigurationError, match=r"policy\.source: neither an address"):
        written(tmp_path, f'source = "{source}"', ROOT)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        pytest.param([FILE, KEY, SOURCE, ROOT], ["not both"], id="both"),
        pytest.param([FILE], ["file and signer go together"], id="half of the one"),
        pytest.param([ROOT], ["source and root go together"], id="half of the other"),
        pytest.param(
            [KEY, SOURCE],
            ["not both", "file and signer go together", "source and root go together"],
            id="half of each",
        ),
        pytest.param([], ["are missing"], id="none"),
        pytest.param(
            [SOURCE, 'refresh = "1ms"'], ["go together", "refresh is from 1s to 7d"], id="too often"
        ),
        pytest.param([SOURCE, ROOT, 'refresh = "30d"'], ["refresh is from"], id="too seldom"),
    ],
)
def test_what_does_not_fit_together_is_told_at_once(
    tmp_path: Path, lines: list[str], words: list[str]
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        written(tmp_path, *lines)

    for word in words:
        assert word in str(caught.value)


def test_a_first_root_that_is_none_is_found_by_the_check(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository", now=NOON)
    written(tmp_path, SOURCE, ROOT)
    config = str(tmp_path / "config.toml")

    missing = typed("--config", config, "config", "check")
    (tmp_path / "root.json").write_bytes(b"{}")
    wrong = typed("--config", config, "config", "check")
    (tmp_path / "root.json").write_bytes(repository.first_root)
    right = typed("--config", config, "config", "check")

    assert (missing.status, "the first root of the policy" in missing.err) == (78, True)
    assert (wrong.status, "root.json: not the root of a repository" in wrong.err) == (78, True)
    assert right.status == 0
