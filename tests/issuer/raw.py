"""Requests as no client of ours would make them."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import aiohttp
from pydantic import JsonValue

from edgeagent.contracts.event import BATCH_CONTENT_TYPE, Stream
from edgeagent.ids import Epoch
from tests.issuer.building import EPOCH
from tests.support.queue_server import KnownHub

NONCE: Final = "ab" * 16


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, JsonValue]:
        """The body."""
        value: dict[str, JsonValue] = json.loads(self.body)
        return value

    @property
    def refused(self) -> dict[int, str]:
        """What an upload's answer says of refused events."""
        refused: list[dict[str, str]] = json.loads(self.body)["refused"]
        return {int(event["number"]): event["reason"] for event in refused}

    @property
    def reason(self) -> JsonValue:
        """The code of a refusal."""
        return self.json["reason"]


async def ask(
    url: str,
    *,
    token: str | None,
    method: str = "POST",
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Make one request on a connection of its own."""
    fields = {"Content-Type": "application/json", **(headers or {})}
    if token is not None:
        fields.setdefault("Authorization", f"Bearer {token}")
    async with (
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.request(
            method, url, data=io.BytesIO(body), headers=fields, allow_redirects=False
        ) as response,
    ):
        return Reply(response.status, response.headers.copy(), await response.read())


async def upload(
    url: str,
    hub: KnownHub,
    body: bytes,
    *,
    headers: Mapping[str, str] | None = None,
    stream: Stream = Stream.RECORD,
    epoch: Epoch = EPOCH,
) -> Reply:
    """Make an upload of any bytes."""
    return await ask(
        f"{url}/v1/hubs/{hub.id}/events?batch={NONCE}&epoch={epoch}&stream={stream}",
        token=hub.token,
        body=body,
        headers={"Content-Type": BATCH_CONTENT_TYPE, **(headers or {})},
    )
