"""How the queue's address and token are given, and what is never shown of them."""

from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.adapters.cloud.settings import CloudSettings, Token, read_token
from edgeagent.errors import ConfigurationError

TOKEN = "a-token-of-thirty-two-characters"  # noqa: S105 - no real one


@pytest.mark.requirement("A2")
def test_a_token_and_a_proxys_password_never_print() -> None:
    settings = CloudSettings(
        url="https://queue.example", token=Token(TOKEN), proxy="http://me:hunter2@proxy.example:3128"
    )

    shown = f"{settings!r} {settings} {settings.token!r} {settings.token}"

    assert TOKEN not in shown
    assert "hunter2" not in shown


@pytest.mark.parametrize("text", ["", "short", "with space" * 4, "new\nline" * 4, "ü" * 32, "x" * 600])
def test_what_could_not_stand_in_a_header_is_no_token(text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Token(text)

    assert not text or text not in str(refused.value)


@pytest.mark.requirement("W3")
def test_a_token_is_read_from_a_file_that_not_everybody_can_read(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o640)

    assert read_token(path).header() == f"Bearer {TOKEN}"

    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="everybody"):
        read_token(path)
    with pytest.raises(ConfigurationError, match="No such file"):
        read_token(tmp_path / "nowhere")


@pytest.mark.parametrize("content", [b"", b"\0" * 40, b"\xff" * 40, b"{}"], ids=repr)
def test_a_file_without_a_token_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    (tmp_path / "token").chmod(0o600)

    with pytest.raises(ConfigurationError):
        read_token(tmp_path / "token")


@pytest.mark.requirement("W2")
@pytest.mark.parametrize(
    "url",
    [
        pytest.param("http://queue.example", id="in the clear"),
        pytest.param("http://127.0.0.1.example", id="a name that looks like this machine"),
        pytest.param("http://10.0.0.1", id="in the clear on the LAN"),
        pytest.param("ftp://queue.example", id="another scheme"),
        pytest.param("queue.example", id="no scheme"),
        pytest.param("https://", id="no host"),
        pytest.param("https://me:secret@queue.example", id="a login in the address"),
        pytest.param("https://queue.example/?a=1", id="a query"),
        pytest.param("https://queue.example/#x", id="a fragment"),
        pytest.param("https://queue.example:99999", id="no port"),
        pytest.param("", id="nothing"),
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        CloudSettings(url=url, token=Token(TOKEN))

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["https://queue.example:8443/hubs", "http://127.0.0.1:8080", "http://[::1]:8000"]
)
def test_https_anywhere_and_http_to_this_machine_are_fine(url: str) -> None:
    assert str(CloudSettings(url=url, token=Token(TOKEN)).base).startswith(url)


@pytest.mark.parametrize("further", [{"proxy": "socks5://p"}, {"proxy": "http://p:x"}, {"key": Path("k")}])
def test_other_settings_that_cannot_work_are_refused(further: dict[str, str | Path]) -> None:
    with pytest.raises(ConfigurationError):
        CloudSettings(
            url="https://queue.example",
            token=Token(TOKEN),
            total_timeout=timedelta(seconds=1),
            **further,  # type: ignore[arg-type]
        )
