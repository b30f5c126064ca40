"""A queue server that cannot run says why, and touches nothing."""

import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edgeagent.errors import AgentError, ConfigurationError
from edgeagent.issuer.keys import PrivateKey, save_key
from edgeagent.issuer.server import serve
from edgeagent.issuer.settings import ServerSettings
from edgeagent.issuer.tokens import entry_text, new_token
from edgeagent.store.files import DamagedFileError, sole_owner
from tests.issuer.building import ManualClock


@pytest.fixture
def settings(tmp_path: Path) -> ServerSettings:
    (tmp_path / "tokens.toml").write_text(entry_text("desk", "issuer", new_token()))
    save_key(PrivateKey.new(), tmp_path / "time.pem")
    return ServerSettings(
        database=tmp_path / "queue.db", tokens=tmp_path / "tokens.toml", time_key=tmp_path / "time.pem"
    )


async def refusal(settings: ServerSettings) -> AgentError:
    with pytest.raises((ConfigurationError, DamagedFileError)) as refused:
        await serve(settings, ManualClock(), listening=lambda _: pytest.fail("it serves"))
    return refused.value


@pytest.mark.requirement("H4")
async def test_a_second_server_on_one_database_does_not_start(settings: ServerSettings) -> None:
    with sole_owner(settings.database.with_name("queue.db.lock")):
        assert "another edgeagent is running" in str(await refusal(settings))

    assert not settings.database.exists()


async def test_a_folder_that_is_missing_is_named(settings: ServerSettings, tmp_path: Path) -> None:
    why = await refusal(replace(settings, database=tmp_path / "nowhere" / "queue.db"))

    assert "nowhere: no such folder" in str(why)


@pytest.mark.requirement("R3", "H4")
async def test_a_damaged_database_is_left_as_it_is(settings: ServerSettings) -> None:
    settings.database.write_bytes(b"\0" * 8192)

    assert isinstance(await refusal(settings), DamagedFileError)

    assert settings.database.read_bytes() == b"\0" * 8192


@pytest.mark.requirement("H4")
@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        pytest.param(lambda s: s.tokens.unlink(), "tokens.toml", id="no tokens"),
        pytest.param(lambda s: s.tokens.write_text("x"), "tokens.toml", id="tokens not in order"),
        pytest.param(lambda s: s.time_key.unlink(), "time.pem", id="no time key"),
        pytest.param(lambda s: s.time_key.chmod(0o644), "others can read", id="a time key for everybody"),
    ],
)
async def test_a_file_that_is_not_in_order_is_named(
    settings: ServerSettings, spoil: Callable[[ServerSettings], object], told: str
) -> None:
    spoil(settings)

    assert told in str(await refusal(settings))

    assert not settings.database.exists()


@pytest.mark.requirement("H4")
@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(None, "No such file", id="missing"),
        pytest.param(b"{}", "payload: Field required", id="no envelope"),
        pytest.param(b"\0", "not JSON", id="zeros"),
    ],
)
async def test_a_policy_that_is_none_is_named(
    settings: ServerSettings, tmp_path: Path, content: bytes | None, told: str
) -> None:
    if content is not None:
        (tmp_path / "policy.json").write_bytes(content)

    why = await refusal(replace(settings, policy=tmp_path / "policy.json"))

    assert "policy.json" in str(why)
    assert told in str(why)


async def test_a_certificate_that_is_none_is_named(settings: ServerSettings, tmp_path: Path) -> None:
    why = await refusal(replace(settings, certificate=tmp_path / "cert.pem"))

    assert "cert.pem" in str(why)


async def test_a_port_that_is_taken_is_told(settings: ServerSettings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        why = await refusal(replace(settings, port=other.getsockname()[1]))

    assert "cannot listen" in str(why)


@pytest.mark.requirement("T1", "W2")
def test_tokens_never_cross_the_network_in_the_clear(settings: ServerSettings) -> None:
    with pytest.raises(ConfigurationError, match="loopback"):
        replace(settings, host="0.0.0.0")  # noqa: S104 - that is what is refused
    with pytest.raises(ConfigurationError, match="certificate"):
        replace(settings, key=settings.time_key)
