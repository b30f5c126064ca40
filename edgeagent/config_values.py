"""What a value of the configuration may be: the types of its keys, each with a few words and an example."""

import re
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from edgeagent.adapters.cloud.settings import is_loopback
from edgeagent.config_keys import Form

HIGHEST_PORT: Final = 65535


def _as_path(value: object) -> object:
    if not isinstance(value, str):
        return value
    if not value or "\x00" in value:
        raise ValueError("has to name a file")
    return Path(value)


def _web_address(url: str) -> str:
    if re.fullmatch(r"https?://[A-Za-z0-9.\-\[\]:]+(/[A-Za-z0-9._~/-]*)?", url) is None:
        raise ValueError("not an address like https://queue.example.org")
    return url.rstrip("/")


def _collector(url: str) -> str:
    """An address that what is told cannot be read on the way to."""
    address = _web_address(url)
    if not address.startswith("https://") and not is_loopback(urlsplit(address).hostname or ""):
        raise ValueError("http goes to this machine only; use https")
    return address


def _reachable(name: str) -> str:
    """A name or address that can be looked up, and be found in a certificate."""
    try:
        name.encode("idna")
    except UnicodeError:
        raise ValueError("no name or address of a host: a part between dots is empty or too long") from None
    if "\x00" in name:
        raise ValueError("no name or address of a host")
    return name


def _place(text: str) -> str:
    """An address that cannot be listened to on the way, or an absolute path."""
    if text.startswith("/") and "\x00" not in text:
        return text
    try:
        url = urlsplit(text)
        is_ours = url.scheme == "https" or (url.scheme == "http" and is_loopback(url.hostname or ""))
        _ = url.port  # raises when it is none
    except ValueError:
        is_ours, url = False, urlsplit("")
    if not is_ours or re.fullmatch(r"https?://[A-Za-z0-9.\-\[\]:]+(/[A-Za-z0-9._~/-]*)?", text) is None:
        raise ValueError(
            "neither an address like https://example.org/policy (http only to this machine) "
            "nor a path like /media/policy"
        )
    return text.rstrip("/")


def _with_port(text: str) -> str:
    """An address with a port that there is; that it is a number, the pattern has seen to."""
    if int(text.rpartition(":")[2]) > HIGHEST_PORT:
        raise ValueError(f"a port is at most {HIGHEST_PORT}")
    return text


def _on_loopback(text: str) -> str:
    """An address of this machine that there can be; that it looks like one, the pattern has seen to."""
    try:
        ip_address(text.rpartition(":")[0].strip("[]"))
    except ValueError:
        raise ValueError("not an address of this machine") from None
    return text


FilePath = Annotated[Path, BeforeValidator(_as_path), Form("path", "ca.pem")]
Folder = Annotated[Path, BeforeValidator(_as_path), Form("path of a folder", "/srv/edgeagent")]
Port = Annotated[int, Field(ge=1, le=65535)]
Listen = Annotated[
    str,
    Field(pattern=r"^(127(\.[0-9]{1,3}){3}|\[::1\]):[0-9]{1,5}$"),
    AfterValidator(_with_port),
    AfterValidator(_on_loopback),
    Form("loopback address and port", "127.0.0.1:9464"),
]
LanListen = Annotated[
    str,
    Field(pattern=r"^([0-9]{1,3}(\.[0-9]{1,3}){3}|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$"),
    AfterValidator(_with_port),
    Form("address and port", "192.168.1.10:0"),
]
AnyListen = Annotated[
    str,
    Field(pattern=r"^([0-9]{1,3}(\.[0-9]{1,3}){3}|\[[0-9A-Fa-f:.]+\]):[1-9][0-9]{0,4}$"),
    AfterValidator(_with_port),
    Form("address and port", "0.0.0.0:1883"),
]
UnixName = Annotated[
    str, Field(pattern=r"^[a-z_][a-z0-9_-]{0,31}$"), Form("name of a user or group", "edgeagent-view")
]
HostName = Annotated[
    str,
    Field(pattern=r"^([A-Za-z0-9]([A-Za-z0-9.-]{0,38}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,38}\])$"),
    Form("host name or address", "hub.lan"),
]
Reachable = Annotated[str, AfterValidator(_reachable)]
Url = Annotated[str, AfterValidator(_web_address), Form("web address", "https://queue.example.org")]
Collector = Annotated[str, AfterValidator(_collector), Form("web address", "https://traces.example.org")]
Place = Annotated[
    str, AfterValidator(_place), Form("web address, or path of a folder", "https://example.org/policy")
]
