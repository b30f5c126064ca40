"""Who may do what, what is never shown, and what becomes of requests that are none."""

import asyncio
from pathlib import Path

import pytest

from edgeagent.issuer.settings import Limits
from edgeagent.issuer.tokens import new_token
from tests.issuer.building import order, records
from tests.issuer.raw import NONCE, ask, upload
from tests.support.queue_server import KnownHub, QueueServer

HUB_PATHS = [
    ("POST", f"/v1/hubs/{{hub}}/events?batch={NONCE}&epoch=00000000000000000000&stream=record"),
    ("POST", "/v1/hubs/{hub}/commands/lease"),
    ("POST", "/v1/hubs/{hub}/commands/acknowledge"),
    ("POST", "/v1/hubs/{hub}/commands/extend"),
    ("POST", "/v1/hubs/{hub}/commands/hand-back"),
    ("POST", "/v1/hubs/{hub}/time"),
]
ISSUER_PATHS = [("POST", "/v1/hubs/{hub}/commands")]
READ_PATHS = [
    ("GET", "/v1/hubs/{hub}"),
    ("GET", "/v1/hubs/{hub}/devices"),
    ("GET", "/v1/hubs/{hub}/events?stream=record"),
    ("GET", "/v1/hubs/{hub}/commands/c1"),
    ("GET", "/v1/refusals"),
]


@pytest.mark.requirement("W2", "U6")
@pytest.mark.parametrize(("method", "path"), HUB_PATHS + ISSUER_PATHS + READ_PATHS)
async def test_nobody_gets_in_without_a_known_token(
    server: QueueServer, hub: KnownHub, method: str, path: str
) -> None:
    url = server.url + path.format(hub=hub.id)

    for header in (None, "", "Bearer", "Bearer ", f"Bearer {new_token()}", f"Basic {hub.token}", "Bearer ü"):
        reply = await ask(
            url, token=None, method=method, headers={} if header is None else {"Authorization": header}
        )
        assert (reply.status, reply.reason) == (401, "unauthorised")
        assert reply.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.requirement("W2", "U6")
@pytest.mark.parametrize(
    ("role", "paths"),
    [
        pytest.param("hub", ISSUER_PATHS + READ_PATHS, id="a hub neither issues nor reads"),
        pytest.param("another hub", HUB_PATHS, id="a hub is no other hub"),
        pytest.param("issuer", HUB_PATHS, id="an issuer is no hub"),
        pytest.param("audit", HUB_PATHS + ISSUER_PATHS, id="an auditor changes nothing"),
    ],
)
async def test_a_role_opens_its_own_paths_only(
    server: QueueServer, hub: KnownHub, role: str, paths: list[tuple[str, str]]
) -> None:
    tokens = {"hub": hub.token, "issuer": server.issuer_token, "audit": server.audit_token}
    token = tokens.get(role) or server.new_hub().token

    for method, path in paths:
        reply = await ask(server.url + path.format(hub=hub.id), token=token, method=method, body=b"[]")
        assert (path, reply.status, reply.reason) == (path, 403, "forbidden")


@pytest.mark.requirement("U6")
@pytest.mark.parametrize("role", ["issuer", "audit"])
async def test_issuers_and_auditors_may_read(server: QueueServer, hub: KnownHub, role: str) -> None:
    token = server.issuer_token if role == "issuer" else server.audit_token

    for method, path in READ_PATHS:
        reply = await ask(server.url + path.format(hub=hub.id), token=token, method=method)
        assert reply.status in {200, 404}
    stranger = await ask(f"{server.url}/v1/hubs/nobody", token=token, method="GET")
    assert (stranger.status, stranger.reason) == (404, "not_found")


@pytest.mark.requirement("A2")
async def test_neither_tokens_nor_payloads_are_logged_or_shown(server: QueueServer, hub: KnownHub) -> None:
    sent = order(hub.id)
    await upload(server.url, hub, records(hub.id, 1).events[0][1])
    await ask(f"{server.url}/v1/hubs/{hub.id}/commands", token=server.issuer_token, body=sent.envelope)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    # A header that is none: aiohttp would log its bytes, and the token with them.
    writer.write(f"GET / HTTP/1.1\r\nAuthorization: Bearer {hub.token}\0\r\n\r\n".encode())
    await reader.read()
    writer.close()

    log = server.log

    assert "Error handling request" in log, "the request was noticed"
    for secret in (hub.token, server.issuer_token, sent.envelope.decode(), "flapping"):
        assert secret not in log


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        pytest.param("GET", "/", 404, id="nothing there"),
        pytest.param("GET", "/v1/hubs/a%2Fb", 404, id="no hub's id"),
        pytest.param("DELETE", "/healthz", 405, id="another method"),
    ],
)
async def test_what_is_not_there_is_answered_as_a_problem(
    server: QueueServer, method: str, path: str, status: int
) -> None:
    reply = await ask(server.url + path, token=server.issuer_token, method=method)

    assert reply.status == status
    assert reply.headers["Content-Type"].startswith("application/json")
    assert reply.headers["Server"] == "edgeagent"


async def test_health_is_open_to_everybody(server: QueueServer) -> None:
    reply = await ask(f"{server.url}/healthz", token=None, method="GET")

    assert (reply.status, reply.json) == (200, {"status": "ok"})


@pytest.mark.requirement("V1")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("commands/lease", b'{"most":1,"wait_seconds":0}', id="a field is missing"),
        pytest.param("commands/lease", b'{"most":0,"wait_seconds":0,"hold_seconds":1}', id="out of range"),
        pytest.param("commands/lease", b'{"most":true,"wait_seconds":0,"hold_seconds":1}', id="wrong type"),
        pytest.param("commands/lease", b'{"most":1,"wait_seconds":1e9,"hold_seconds":1}', id="for ever"),
        pytest.param("commands/acknowledge", b'{"handles":[]}', id="none"),
        pytest.param("commands/acknowledge", b'{"handles":["\' OR 1=1"]}', id="no handle"),
        pytest.param("commands/extend", b'{"handles":["' + b"0" * 32 + b'"]}', id="half of it"),
        pytest.param("time", b'{"nonce":"short"}', id="no nonce"),
        pytest.param("time", b'{"nonce":"' + b"0" * 32 + b'","and":1}', id="an unknown field"),
        pytest.param("time", b"[" * 8000, id="too deep"),
        pytest.param("time", b'{"nonce":"\xff"}', id="not UTF-8"),
        pytest.param("time", b"", id="nothing"),
    ],
)
async def test_a_request_that_is_none_is_refused_with_a_word(
    server: QueueServer, hub: KnownHub, path: str, body: bytes
) -> None:
    reply = await ask(f"{server.url}/v1/hubs/{hub.id}/{path}", token=hub.token, body=body)

    assert (reply.status, reply.reason) == (400, "malformed")
    assert reply.json["detail"]


@pytest.mark.requirement("V1")
@pytest.mark.parametrize(
    "query",
    [
        "",
        "x=1",
        "stream=other",
        "stream=record&stream=state",
        "stream=record&after=-1",
        "stream=record&after=1e3",
        "stream=record&after=99999999999999999999",
        "stream=record&most=0",
        "stream=record&most=nan",
    ],
)
async def test_a_query_that_is_none_is_refused(server: QueueServer, hub: KnownHub, query: str) -> None:
    url = f"{server.url}/v1/hubs/{hub.id}/events?{query}"

    reply = await ask(url, token=server.issuer_token, method="GET")

    assert (reply.status, reply.reason) == (400, "malformed")


@pytest.mark.requirement("R7")
async def test_a_small_request_may_not_be_large_or_packed(server: QueueServer, hub: KnownHub) -> None:
    url = f"{server.url}/v1/hubs/{hub.id}/time"

    large = await ask(url, token=hub.token, body=b" " * 20_000)
    packed = await ask(url, token=hub.token, body=b"{}", headers={"Content-Encoding": "gzip"})
    form = await ask(url, token=hub.token, body=b"a=1", headers={"Content-Type": "text/plain"})

    assert (large.status, packed.status, form.status) == (413, 415, 415)


@pytest.mark.requirement("R7")
async def test_a_body_that_never_ends_is_given_up_and_the_server_goes_on(tmp_path: Path) -> None:
    with QueueServer(tmp_path, limits=Limits(body_time=Limits().body_time / 100)) as server:
        hub = server.new_hub()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(
            f"POST /v1/hubs/{hub.id}/time HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {hub.token}\r\n"
            "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{".encode()
        )

        answered = await asyncio.wait_for(reader.readline(), 60)
        writer.close()

        assert b"408" in answered
        assert (await ask(f"{server.url}/healthz", token=None, method="GET")).status == 200
