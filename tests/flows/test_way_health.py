"""The way to the cloud, step by step: the name, the proxy, the certificate that was shown (SPEC O5)."""

import socket
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta

import pytest

from edgeagent.adapters.reach import addresses, knock
from edgeagent.clock import ClockSource, Wall
from edgeagent.contracts.reports.health import Level
from edgeagent.flows.way_health import WayToCloud, shown_certificate_check
from tests.support.brokers import free_port
from tests.support.clocks import NOON

pytestmark = pytest.mark.requirement("O5")

CLOUD = "https://queue.example.org/v1"
DAY = timedelta(days=1)
NOW = Wall(best=NOON, earliest=NOON, latest=NOON, source=ClockSource.STATEMENT)


def nowhere(_host: str, _port: int) -> Sequence[str]:
    """A name server that knows no name."""
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def to_here(host: str, port: int) -> Sequence[str]:
    """A name server by which every name is this machine."""
    return ["127.0.0.1", f"::{port}", host, "more"]


def test_a_name_that_leads_somewhere_is_well() -> None:
    [dns] = WayToCloud(CLOUD, None, to_here, knock).checks()

    assert (dns.name, dns.level) == ("dns", Level.OK)
    assert dns.summary == "queue.example.org leads to 127.0.0.1, ::443, queue.example.org"


def test_a_name_that_leads_nowhere_is_told_with_what_to_type() -> None:
    [dns] = WayToCloud(CLOUD, None, nowhere, knock).checks()

    assert dns.level is Level.WARNING
    assert "queue.example.org leads nowhere" in dns.summary
    assert "getent hosts queue.example.org" in dns.advice


@pytest.mark.parametrize("url", ["https://192.0.2.7:8443", "http://[::1]:8443/x"])
def test_an_address_needs_no_name_server(url: str) -> None:
    [dns] = WayToCloud(url, None, nowhere, knock).checks()

    assert dns.level is Level.OK


@pytest.mark.requirement("A2")
def test_with_a_proxy_its_name_counts_and_its_door_and_never_its_login() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        open_ = WayToCloud(CLOUD, f"http://anna:geheim@localhost:{port}", addresses, knock).checks()
    shut = WayToCloud(CLOUD, f"http://anna:geheim@localhost:{free_port()}", addresses, knock).checks()
    unknown = WayToCloud(CLOUD, "http://anna:geheim@proxy.example.org:3128", nowhere, knock).checks()

    assert [check.level for check in open_] == [Level.OK, Level.OK]
    assert [check.level for check in shut] == [Level.OK, Level.WARNING]
    assert "takes no connection" in shut[1].summary
    assert [(check.name, check.level) for check in unknown] == [
        ("dns", Level.WARNING),
        ("proxy", Level.UNKNOWN),
    ]
    for check in (*open_, *shut, *unknown):
        assert "geheim" not in check.summary + check.advice


@pytest.mark.parametrize("name", ["x" * 70 + ".example.org", "a..b", "."])
def test_a_name_that_is_none_is_an_error_like_any(name: str) -> None:
    with pytest.raises(OSError, match="is no name"):
        addresses(name, 443)
    with pytest.raises(OSError, match="is no name"):
        knock(name, 443, timedelta(seconds=1))


@pytest.mark.parametrize(
    ("left", "level"),
    [
        pytest.param(None, Level.OK, id="none was seen"),
        pytest.param(DAY * 60, Level.OK, id="long"),
        pytest.param(DAY * 10, Level.WARNING, id="soon"),
        pytest.param(DAY, Level.CRITICAL, id="very soon"),
        pytest.param(-DAY, Level.CRITICAL, id="over"),
    ],
)
def test_the_certificate_that_the_cloud_has_shown(left: timedelta | None, level: Level) -> None:
    check = shown_certificate_check(None if left is None else NOON + left, NOW)

    assert check.level is level
    assert bool(check.advice) == (level is not Level.OK)
