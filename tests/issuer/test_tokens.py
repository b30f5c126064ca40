"""Bearer tokens, their file and their roles."""

from pathlib import Path

import pytest

from edgeagent.errors import ConfigurationError, MalformedError
from edgeagent.ids import hub_id
from edgeagent.issuer.tokens import (
    Principal,
    Role,
    TokenFile,
    digest_of_token,
    entry_text,
    new_token,
    read_tokens,
)


def file_of(path: Path, text: str) -> TokenFile:
    path.write_text(text)
    tokens = TokenFile(path)
    tokens.load()
    return tokens


@pytest.mark.requirement("W2")
@pytest.mark.parametrize(
    ("role", "expected"),
    [
        pytest.param("issuer", Principal("it", Role.ISSUER, None), id="issuer"),
        pytest.param("audit", Principal("it", Role.AUDIT, None), id="audit"),
        pytest.param("hub:venue-7", Principal("it", Role.HUB, hub_id("venue-7")), id="hub"),
    ],
)
def test_a_token_stands_for_its_role(tmp_path: Path, role: str, expected: Principal) -> None:
    token = new_token()
    tokens = file_of(tmp_path / "tokens.toml", entry_text("it", role, token))

    assert tokens.principal(token) == expected
    assert tokens.principal(new_token()) is None
    assert tokens.principal("") is None


@pytest.mark.requirement("A2")
def test_the_file_never_holds_a_token() -> None:
    token = new_token()

    text = entry_text("it", "issuer", token)

    assert token not in text
    assert digest_of_token(token) in text
    assert len({new_token() for _ in range(100)}) == 100


def test_a_name_with_quotes_comes_back_as_it_was() -> None:
    text = entry_text('the "desk" \\ upstairs', "issuer", new_token())

    assert read_tokens(text.encode()).tokens[0].name == 'the "desk" \\ upstairs'


def test_a_changed_file_counts_at_once_and_a_broken_one_does_not(tmp_path: Path) -> None:
    path, first, second = tmp_path / "tokens.toml", new_token(), new_token()
    tokens = file_of(path, entry_text("first", "issuer", first))

    path.write_text(entry_text("second", "hub:venue-7", second))
    assert tokens.principal(first) is None
    assert tokens.principal(second) is not None
    assert tokens.knows_hub(hub_id("venue-7"))

    path.write_text("[[tokens]]\nname = ")
    assert tokens.principal(second) is not None

    path.unlink()
    assert tokens.principal(second) is not None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[[tokens]]\nname = 'x'\n", id="half an entry"),
        pytest.param("[[tokens]]\nname='x'\nrole='root'\nsha256='" + "a" * 64 + "'", id="unknown role"),
        pytest.param("[[tokens]]\nname='x'\nrole='hub:a/b'\nsha256='" + "a" * 64 + "'", id="no hub"),
        pytest.param("[[tokens]]\nname='x'\nrole='audit'\nsha256='abc'", id="no hash"),
        pytest.param("tokens = 2026-01-01", id="a day"),
        pytest.param("[[token]]", id="misspelt"),
        pytest.param("\0", id="no TOML"),
    ],
)
def test_a_file_that_is_not_in_order_lets_the_server_not_start(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"tokens\.toml"):
        file_of(tmp_path / "tokens.toml", text)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        TokenFile(tmp_path / "tokens.toml").load()


def test_one_token_twice_is_refused() -> None:
    token = new_token()

    with pytest.raises(MalformedError, match="twice"):
        read_tokens((entry_text("a", "issuer", token) + entry_text("b", "audit", token)).encode())


def test_no_entry_is_made_for_a_role_or_name_that_is_none() -> None:
    with pytest.raises(MalformedError):
        entry_text("it", "root", new_token())
    with pytest.raises(MalformedError):
        entry_text("it\n", "issuer", new_token())
