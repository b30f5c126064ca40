"""The interface is what ``docs/openapi.yaml`` says, held against real traffic of real clients."""

import asyncio
import json
import re
import ssl
from base64 import b64encode
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from prometheus_client import CollectorRegistry

from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.adapters.cloud.settings import CloudSettings, Token
from edgeagent.contracts.event import EventType, Stream
from edgeagent.errors import AgentError
from edgeagent.ids import hub_id
from edgeagent.issuer.bells import Bells
from edgeagent.issuer.client import IssuerClient
from edgeagent.issuer.instruments import Instruments
from edgeagent.issuer.logins import Logins
from edgeagent.issuer.policy_in_force import FixedPolicy
from edgeagent.issuer.server import application
from edgeagent.issuer.service import Service
from edgeagent.issuer.settings import Limits
from edgeagent.issuer.tokens import TokenFile, new_token
from edgeagent.issuer.wire import CommandState
from edgeagent.store.identity import IdentitySlots
from tests.issuer.building import (
    ManualClock,
    batch,
    hello,
    order,
    real_clock,
    receipt_event,
    state,
    stored,
)
from tests.issuer.publishing import issuing
from tests.issuer.raw import NONCE, ask, upload
from tests.issuer.test_artifacts import ALL_TASMOTA, plug, room
from tests.issuer.test_artifacts import PLUG as ARTIFACT
from tests.issuer.traffic import Exchange, Listener, check, document
from tests.support.enrolled import enrolling
from tests.support.queue_server import KnownHub, QueueServer

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "openapi.yaml"
LONG: Final = timedelta(minutes=5)
NOW: Final = timedelta(0)


@pytest.mark.requirement("U8")
def test_the_document_is_openapi() -> None:
    from openapi_spec_validator import validate

    validate(yaml.safe_load(DOCUMENT.read_text("utf-8")))


async def _everything_as_it_should_be(listener: Listener, server: QueueServer, hub: KnownHub) -> None:
    """A hub's life, from its hello to a receipt."""
    url = f"http://127.0.0.1:{listener.port}"
    clock = real_clock()
    queue = HttpsQueue(CloudSettings(url=url, token=Token(hub.token)), hub.id, clock)
    async with IssuerClient(CloudSettings(url=url, token=Token(server.issuer_token)), clock) as cloud:
        await cloud.hub(hub.id)
        await cloud.devices(hub.id)
        admitted = stored(2, EventType.DEVICE_ADMITTED, {"label": "TV", "profile": "tasmota", "actions": []})
        await queue.upload(batch(hub.id, [hello(), admitted, stored(4)]))
        await queue.upload(batch(hub.id, [state(1, 7, power=False)], stream=Stream.STATE))
        warm = [
            stored(n, EventType.TELEMETRY, {"readings": {"temperature": n / 4, "fw": "x"}})
            for n in range(1, 99)
        ]
        await queue.upload(batch(hub.id, warm, stream=Stream.TELEMETRY))
        await queue.upload(batch(hub.id, [stored(4, data={"reason": "another"})]))
        kept, done, back = order(hub.id), order(hub.id), order(hub.id)
        for one in (kept, done, back):
            await cloud.send(one)
        first, second, third = await queue.lease(most=5, wait=NOW, hold=LONG)
        await queue.extend([first.handle], hold=LONG)
        await queue.acknowledge([second.handle, "0" * 32])
        await queue.hand_back([third.handle])
        await queue.lease(most=5, wait=timedelta(milliseconds=1), hold=LONG)
        await queue.upload(batch(hub.id, [receipt_event(3, done)]))
        await cloud.status(hub.id, done.command.id, known=CommandState.QUEUED)
        await cloud.receipt(done, within=LONG)
        await cloud.envelopes(hub.id, done.command.id)
        await cloud.hub(hub.id)
        await cloud.devices(hub.id)
        for stream in Stream:
            await cloud.events(hub.id, stream, most=3)
        await queue.statement(NONCE)
        await cloud.refusals()
    await queue.close()
    await ask(f"{url}/healthz", token=None, method="GET", headers={"Content-Type": ""})


async def _what_is_read_without_a_client(url: str, server: QueueServer) -> None:
    """The policy's files, and what Prometheus asks for."""
    metadata = await ask(f"{url}/v1/policy/metadata/1.targets.json", token=None, method="GET")
    artifact = f"{sha256(b'firmware').hexdigest()}.{ARTIFACT}"
    place = f"{url}/v1/policy/targets/artifacts/plugs"
    whole = await ask(f"{place}/{artifact}", token=None, method="GET")
    part = await ask(f"{place}/{artifact}", token=None, method="GET", headers={"Range": "bytes=4-"})
    assert (whole.status, whole.body, part.status, part.body) == (200, b"firmware", 206, b"ware")
    for strange in (f"{place}/{ARTIFACT}", f"{place}/{'0' * 64}.{ARTIFACT}", f"{place}/{artifact}.x"):
        assert (await ask(strange, token=None, method="GET")).status == 404
    [target] = metadata.json["signed"]["targets"].values()  # type: ignore[index,call-overload,union-attr]
    name = f"{target['hashes']['sha256']}.policy.json"  # type: ignore[index,call-overload]
    await ask(f"{url}/v1/policy/targets/{name}", token=None, method="GET")
    await ask(f"{url}/metrics", token=server.audit_token, method="GET")


async def _how_hubs_become_known(folder: Path) -> list[Exchange]:
    """A hub's identity from its claim code to its end, and what is refused on the way."""
    with enrolling(folder) as office:
        slots = await office.enrols(await office.claims("venue-1"), folder / "hub-1")
        claim, key = office.code("venue-2"), IdentitySlots(folder / "hub-2")
        secret, request = claim.secret.hex(), der(key.request(claim.facts.hub))
        shown = ssl.create_default_context(cafile=office.folder.root)
        shown.load_cert_chain(slots.current)
        async with Listener(office.server.url, shown) as listener:
            url = f"http://127.0.0.1:{listener.port}"
            end = CloudSettings(url=url, token=Token(office.server.issuer_token))
            await ask(f"{url}/v1/enrolment", token=None, body=enrolment(secret, request))
            async with IssuerClient(end, real_clock()) as issuer:
                await issuer.claim(claim)
                await issuer.claims()
                for body in (
                    enrolment(secret, request),
                    enrolment(secret, der(key.request(hub_id("x")))),
                    b"{}",
                ):
                    await ask(f"{url}/v1/enrolment", token=None, body=body)
                other = IdentitySlots(folder / "other").request(claim.facts.hub)
                await ask(f"{url}/v1/enrolment", token=None, body=enrolment(secret, der(other)))
                late = await office.claims("venue-3")
                await issuer.revoke_claim(late.facts.hub)
                await ask(f"{url}/v1/enrolment", token=None, body=enrolment(late.secret.hex(), request))
                await ask(f"{url}/v1/authority", token=None, method="GET")
                await ask(f"{url}/v1/identity", token=None, method="GET")
                await ask(f"{url}/v1/renewal", token=None, body=renewal(request))
                await ask(f"{url}/v1/renewal", token=None, body=b"{}")
                await issuer.revoke(hub_id("venue-1"))
                await ask(f"{url}/v1/renewal", token=None, body=renewal(request))
                await ask(f"{url}/v1/hubs/venue-1/time", token=None, body=b"{}")
                await ask(f"{url}/v1/hubs/venue-1/claim", token=office.server.audit_token, body=b"{}")
                await ask(f"{url}/v1/hubs/venue-1/claim", token=office.server.issuer_token, body=b"{}")
    return listener.heard


def der(request: x509.CertificateSigningRequest) -> str:
    return b64encode(request.public_bytes(Encoding.DER)).decode()


def enrolment(secret: str, request: str) -> bytes:
    return json.dumps({"secret": secret, "request": request}).encode()


def renewal(request: str) -> bytes:
    return json.dumps({"request": request}).encode()


async def _everything_as_it_should_not_be(listener: Listener, server: QueueServer, hub: KnownHub) -> None:
    """What each path refuses."""
    url = f"http://127.0.0.1:{listener.port}"
    here = f"{url}/v1/hubs/{hub.id}"
    await upload(url, hub, b"no JSON")
    await upload(url, hub, b"[]", headers={"Content-Type": "text/plain"})
    await upload(url, hub, b" " * (Limits().upload_bytes + 1))
    for path in ("commands/lease", "commands/acknowledge", "commands/extend", "commands/hand-back", "time"):
        await ask(f"{here}/{path}", token=hub.token, body=b"{}")
        await ask(f"{here}/{path}", token=hub.token, body=b"{}", headers={"Content-Type": "text/plain"})
        await ask(f"{here}/{path}", token=hub.token, body=b" " * 20_000)
        await ask(f"{here}/{path}", token=server.issuer_token, body=b"{}")
        await ask(f"{here}/{path}", token=new_token(), body=b"{}")
    one = "/commands/c1"
    for path in ("", "/devices", "/events?stream=record", one, f"{one}/envelopes"):
        await ask(here + path, token=server.audit_token, method="GET")
        await ask(here + path, token=hub.token, method="GET")
        await ask(here + path, token=None, method="GET")
        await ask(f"{url}/v1/hubs/nobody{path}", token=server.audit_token, method="GET")
    await ask(f"{here}/events?stream=no", token=server.audit_token, method="GET")
    await ask(f"{here}/commands/c1?wait=x", token=server.audit_token, method="GET")
    for path in ("metadata/timestamp.jso", "metadata/9.root.json", "targets/policy.json"):
        await ask(f"{url}/v1/policy/{path}", token=None, method="GET")
    await ask(f"{url}/metrics", token=hub.token, method="GET")
    await ask(f"{url}/v1/refusals?most=0", token=server.audit_token, method="GET")
    sent = order(hub.id)
    await ask(f"{here}/commands", token=server.issuer_token, body=sent.envelope)
    await ask(f"{here}/commands", token=server.issuer_token, body=b"{}")
    await ask(f"{here}/commands", token=server.issuer_token, body=b" " * 10_000)
    await ask(f"{here}/commands", token=server.audit_token, body=sent.envelope)


@pytest.mark.slow
@pytest.mark.requirement("U8")
async def test_what_goes_over_the_wire_is_what_the_document_describes(
    server: QueueServer, hub: KnownHub, tmp_path: Path
) -> None:
    described = document()
    issuer = issuing(tmp_path)
    room(issuer).add_role("plugs", ALL_TASMOTA)
    room(issuer).add(plug(issuer))
    async with Listener(server.url) as listener:
        await _everything_as_it_should_not_be(listener, server, server.new_hub())
        await _everything_as_it_should_be(listener, server, hub)
    heard = listener.heard
    with QueueServer(tmp_path / "queue", repository=tmp_path / "venue" / "repository") as with_policy:
        async with Listener(with_policy.url) as listener:
            await _what_is_read_without_a_client(f"http://127.0.0.1:{listener.port}", with_policy)
    heard += listener.heard
    heard += await _how_hubs_become_known(tmp_path / "office")

    for exchange in heard:
        check(exchange, described)

    operations = _operations()
    seen = {_operation(exchange) for exchange in heard if exchange.status < 300}
    assert seen == operations, "each operation was seen to work"


@pytest.mark.requirement("U8", "H9")
async def test_being_pushed_out_and_a_conflict_are_described_too(server: QueueServer, hub: KnownHub) -> None:
    described = document()
    async with Listener(server.url) as listener:
        url = f"http://127.0.0.1:{listener.port}"
        queue = HttpsQueue(CloudSettings(url=url, token=Token(hub.token)), hub.id, real_clock())
        both = [asyncio.create_task(queue.lease(most=1, wait=LONG, hold=LONG)) for _ in range(2)]
        pushed_out, waiting = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        await queue.close()

    assert isinstance(pushed_out.pop().exception(), AgentError)
    [answer] = listener.heard
    assert (answer.status, "Retry-After" in answer.answer_headers) == (429, True)
    check(answer, described)


def test_the_check_itself_notices_what_is_not_described() -> None:
    described = document()
    good = Exchange(
        "POST",
        "/v1/hubs/venue-7/time",
        {},
        {"Content-Type": "application/json", "Authorization": "Bearer x"},
        b'{"nonce":"%s"}' % NONCE.encode(),
        200,
        {"Content-Type": "application/json"},
        b'{"payload":"YQ==","payloadType":"x","signatures":[{"keyid":"%s","sig":""}]}' % (b"0" * 64),
    )
    check(good, described)

    from openapi_core.exceptions import OpenAPIError

    for bad in (
        replace(good, body=b'{"nonce":"x"}'),
        replace(good, body=b"{}"),
        replace(good, headers={"Content-Type": "application/json"}),
        replace(good, status=201),
        replace(good, answer=b"{}"),
        replace(good, answer_headers={"Content-Type": "text/html"}),
        replace(good, path="/v1/elsewhere"),
    ):
        with pytest.raises(OpenAPIError):
            check(bad, described)


def test_every_path_of_the_server_is_described_and_no_other(tmp_path: Path) -> None:
    service = Service(
        database=None,  # type: ignore[arg-type]  # no request is made
        clock=ManualClock(),
        logins=Logins(TokenFile(tmp_path / "tokens.toml"), None, ManualClock()),  # type: ignore[arg-type]  # as above
        policy=FixedPolicy(None),
        repository=None,
        instruments=Instruments(CollectorRegistry()),
        time_key=None,
        bells=Bells(),
        new_handle=lambda: "",
        limits=Limits(),
    )

    served = {
        (route.method.lower(), route.resource.canonical)
        for route in application(service).router.routes()
        if isinstance(route.resource, web.Resource)
    }

    assert served == _operations()


def _operations() -> set[tuple[str, str]]:
    described = yaml.safe_load(DOCUMENT.read_text("utf-8"))
    return {
        (method, path)
        for path, item in described["paths"].items()
        for method in item
        if method in {"get", "post", "put", "delete"}
    }


def _operation(exchange: Exchange) -> tuple[str, str]:
    patterns = {path: re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)) for _, path in _operations()}
    # The longest: a command's id might be called "lease".
    [path, *_] = sorted(
        (path for path, pattern in patterns.items() if re.fullmatch(pattern, exchange.path)),
        key=lambda path: path.count("{"),
    )
    return exchange.method.lower(), path


def test_a_hub_of_the_document_is_a_hub_of_ours() -> None:
    described = yaml.safe_load(DOCUMENT.read_text("utf-8"))["components"]["schemas"]["Id"]["pattern"]

    for text in ("venue-7", "A_b-9", "x" * 64):
        assert re.fullmatch(described, hub_id(text))
    for text in ("", "a/b", "x" * 65, "a b"):
        assert not re.fullmatch(described, text)


def test_the_limits_of_the_document_are_those_of_the_server() -> None:
    described = DOCUMENT.read_text("utf-8")

    assert f"maxItems: {Limits().events}" in described
    assert "At most 1 MiB as sent, and 4 MiB unpacked" in described
    assert (Limits().upload_bytes, Limits().unpacked_bytes) == (2**20, 4 * 2**20)
