"""What counts as an answer of the queue, and what never does (SPEC U4)."""

import gzip
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest

from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.adapters.cloud.settings import CloudSettings, Token
from edgeagent.contracts.command import COMMAND_BYTES
from edgeagent.contracts.event import Stream
from edgeagent.contracts.timestatement import TIME_BYTES
from edgeagent.errors import RejectedError
from edgeagent.ids import hub_id
from edgeagent.ports.links import LinkError, Trouble
from tests.issuer.building import ManualClock, batch, records, stored
from tests.support.portals import (
    Portal,
    Script,
    answers,
    captive_portal,
    hangs_up,
    never_ends,
    proves,
    redirects,
    says_nothing,
    speaks,
    truncates,
)

HUB: Final = hub_id("venue-7")
NONCE: Final = "cd" * 16
TOKEN: Final = "a-token-of-thirty-two-characters"  # noqa: S105 - no real one
SECOND: Final = timedelta(seconds=1)
JSON_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def settings(portal: Portal) -> CloudSettings:
    return CloudSettings(
        url=portal.url,
        token=Token(TOKEN),
        connect_timeout=SECOND * 5,
        total_timeout=SECOND * 5,
        most_answer_bytes=64 * 1024,
    )


@asynccontextmanager
async def facing(
    script: Script, *, total_timeout: timedelta = SECOND * 5
) -> AsyncIterator[tuple[HttpsQueue, Portal]]:
    """A hub whose queue is not the queue."""
    async with Portal(script) as portal:
        queue = HttpsQueue(
            replace(settings(portal), total_timeout=total_timeout),
            HUB,
            ManualClock(),
            new_nonce=lambda: NONCE,
        )
        try:
            yield queue, portal
        finally:
            await queue.close()


async def trouble(script: Script, **how: timedelta) -> LinkError:
    """What an upload of event 1 ends with."""
    async with facing(script, **how) as (queue, _):
        with pytest.raises(LinkError) as failed:
            await queue.upload(records(HUB, 1))
    return failed.value


@pytest.mark.requirement("U4")
async def test_an_answer_that_fits_the_question_is_proof() -> None:
    async with facing(proves(taken=[[1, 2], [9, 9]], refused=[{"number": 5, "reason": "malformed"}])) as (
        queue,
        _,
    ):
        answer = await queue.upload(records(HUB, 1, 2, 5, 9, 12))

    assert answer.taken == {1, 2, 9}
    assert answer.refused == {5: "malformed"}


@pytest.mark.requirement("U4")
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param(captive_portal(), Trouble.CAPTIVE_PORTAL, id="200 and a page"),
        pytest.param(redirects("http://127.0.0.1:1/login"), Trouble.CAPTIVE_PORTAL, id="sent elsewhere"),
        pytest.param(answers("511 Network Authentication Required"), Trouble.CAPTIVE_PORTAL, id="511"),
        pytest.param(answers("407 Proxy Authentication Required"), Trouble.CAPTIVE_PORTAL, id="407 unasked"),
        pytest.param(
            answers("404 Not Found", b"<html>", content_type="text/html"),
            Trouble.CAPTIVE_PORTAL,
            id="404 page",
        ),
        pytest.param(
            answers("200 OK", b"{}", content_type="text/json"), Trouble.CAPTIVE_PORTAL, id="text/json"
        ),
        pytest.param(answers("200 OK", b""), Trouble.BROKEN_ANSWER, id="nothing"),
        pytest.param(answers("204 No Content"), Trouble.BROKEN_ANSWER, id="204"),
        pytest.param(answers("202 Accepted", b"{}"), Trouble.BROKEN_ANSWER, id="202"),
        pytest.param(answers("200 OK", b'{"status":"ok"}'), Trouble.BROKEN_ANSWER, id="foreign JSON"),
        pytest.param(answers("200 OK", b"[]"), Trouble.BROKEN_ANSWER, id="another shape"),
        pytest.param(answers("200 OK", b"[" * 10_000), Trouble.BROKEN_ANSWER, id="deep"),
        pytest.param(answers("200 OK", b'{"a":"\xff"}'), Trouble.BROKEN_ANSWER, id="not UTF-8"),
        pytest.param(answers("200 OK", b" " * 100_000), Trouble.BROKEN_ANSWER, id="huge"),
        pytest.param(never_ends(b" " * 4096), Trouble.BROKEN_ANSWER, id="chunked for ever"),
        pytest.param(truncates(b'{"batch":', announced=200), Trouble.BROKEN_ANSWER, id="cut"),
        pytest.param(
            speaks(JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{}"),
            Trouble.BROKEN_ANSWER,
            id="cut chunk",
        ),
        pytest.param(
            answers("200 OK", gzip.compress(b" " * 10**7), headers={"Content-Encoding": "gzip"}),
            Trouble.BROKEN_ANSWER,
            id="a bomb in an encoding that was not asked for",
        ),
        pytest.param(answers("500 Oh", b"{}"), Trouble.BROKEN_ANSWER, id="500"),
        pytest.param(answers("502 Bad Gateway", b"<html>"), Trouble.UNREACHABLE, id="502"),
        pytest.param(answers("504 Gateway Timeout", b"<html>"), Trouble.UNREACHABLE, id="504"),
        pytest.param(answers("503 Busy", b"<html>"), Trouble.BUSY, id="503"),
        pytest.param(answers("429 Too Many", b"{}"), Trouble.BUSY, id="429"),
        pytest.param(answers("401 Unauthorized", b"{}"), Trouble.LOGIN, id="401"),
        pytest.param(answers("403 Forbidden", b"<html>"), Trouble.LOGIN, id="403"),
        pytest.param(speaks(b"SSH-2.0-OpenSSH_9.2\r\n"), Trouble.BROKEN_ANSWER, id="no HTTP"),
        pytest.param(
            speaks(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 99_999), Trouble.BROKEN_ANSWER, id="long header"
        ),
        pytest.param(hangs_up(), Trouble.UNREACHABLE, id="hangs up"),
    ],
)
async def test_whatever_else_answers_acknowledges_nothing(script: Script, expected: Trouble) -> None:
    assert (await trouble(script)).trouble is expected


@pytest.mark.requirement("U4")
@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"batch": "ef" * 16}, id="another nonce"),
        pytest.param({"batch": None}, id="no nonce"),
        pytest.param({"hub": "venue-8"}, id="another hub"),
        pytest.param({"epoch": "00000000000000000000"}, id="another epoch"),
        pytest.param({"stream": "state"}, id="another stream"),
        pytest.param({"taken": [[2, 2]]}, id="a number that was not sent"),
        pytest.param({"taken": [[0, 1]]}, id="from nought"),
        pytest.param({"taken": [[1, 9223372036854775805]]}, id="everything"),
        pytest.param({"taken": [[1, 1], [1, 1]]}, id="a number twice"),
        pytest.param({"taken": [[2, 1]]}, id="turned back"),
        pytest.param({"taken": [[1]]}, id="half a range"),
        pytest.param({"taken": [["1", "1"]]}, id="text for numbers"),
        pytest.param({"taken": [[1.0, 1.5]]}, id="fractions"),
        pytest.param({"taken": [[True, True]]}, id="truths"),
        pytest.param({"taken": None}, id="nothing taken"),
        pytest.param({"taken": []}, id="an empty proof"),
        pytest.param({"refused": [{"number": 1, "reason": "x"}]}, id="taken and refused"),
        pytest.param({"refused": [{"number": 7, "reason": "x"}]}, id="refused what was not sent"),
        pytest.param({"refused": [{"number": 1}], "taken": []}, id="refused without a reason"),
        pytest.param({"more": 1}, id="an unknown field"),
    ],
)
async def test_an_answer_that_does_not_fit_what_was_sent_proves_nothing(changed: dict[str, object]) -> None:
    assert (await trouble(proves(**changed))).trouble is Trouble.BROKEN_ANSWER


@pytest.mark.requirement("U5")
@pytest.mark.parametrize("status", ["400 Bad", "413 Too Large", "415 Type", "422 Unprocessable"])
async def test_a_refusal_counts_only_when_the_queue_itself_has_written_it(status: str) -> None:
    """A proxy's 413 must never make the hub set an event aside."""
    own = json.dumps({"reason": "too_large", "detail": "a body may have 9 bytes", "batch": NONCE}).encode()
    other = json.dumps(
        {"reason": "too_large", "detail": "a body may have 9 bytes", "batch": "0" * 32}
    ).encode()
    nameless = json.dumps({"reason": "too_large", "detail": "a body may have 9 bytes"}).encode()

    async with facing(answers(status, own)) as (queue, _):
        with pytest.raises(RejectedError, match="too_large"):
            await queue.upload(records(HUB, 1))
    for foreign in (other, nameless, b"<html>"):
        assert (await trouble(answers(status, foreign))).trouble is Trouble.BROKEN_ANSWER
    page = answers(status, b"<html>", content_type="text/html")
    assert (await trouble(page)).trouble is Trouble.CAPTIVE_PORTAL


@pytest.mark.requirement("U4")
async def test_a_queue_that_does_not_answer_is_given_up() -> None:
    silent = await trouble(says_nothing(), total_timeout=SECOND / 5)
    slow = await trouble(never_ends(b" ", pause=0.05), total_timeout=SECOND / 5)

    assert (silent.trouble, slow.trouble) == (Trouble.UNREACHABLE, Trouble.UNREACHABLE)


@pytest.mark.requirement("R8")
async def test_nobody_at_home_is_told_as_such() -> None:
    async with Portal(hangs_up()) as portal:
        nowhere = settings(portal)
    nameless = CloudSettings(url="https://queue.invalid", token=Token(TOKEN))
    unspeakable = CloudSettings(url=f"https://{'x' * 70}.invalid", token=Token(TOKEN))

    for unreachable in (nowhere, nameless, unspeakable):
        queue = HttpsQueue(unreachable, HUB, ManualClock())
        with pytest.raises(LinkError) as failed:
            await queue.upload(records(HUB, 1))
        await queue.close()
        assert failed.value.trouble is Trouble.UNREACHABLE


@pytest.mark.requirement("E4")
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param({"Retry-After": "17"}, SECOND * 17, id="seconds"),
        pytest.param({"Retry-After": "0"}, SECOND * 0, id="at once"),
        pytest.param({"Retry-After": "99999999999999999999"}, timedelta(hours=1), id="for ever"),
        pytest.param(
            {"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT", "Date": "Wed, 21 Oct 2026 07:28:00 GMT"},
            SECOND * 30,
            id="a date by the answer's own",
        ),
        pytest.param({"Retry-After": "Tue, 01 Dec 2026 12:00:45 GMT"}, SECOND * 45, id="a date by our clock"),
        pytest.param({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, SECOND * 0, id="a past date"),
        pytest.param({"Retry-After": "soon"}, None, id="nonsense"),
        pytest.param({"Retry-After": "-5"}, None, id="negative"),
        pytest.param({"Retry-After": "Wed, 99 Oct 2026 07:28:00 GMT"}, None, id="no such day"),
        pytest.param({}, None, id="not a word"),
    ],
)
async def test_the_queue_may_ask_us_to_come_later(
    headers: dict[str, str], expected: timedelta | None
) -> None:
    failed = await trouble(answers("503 Busy", b"", headers=headers))

    assert failed.retry_after == expected


@pytest.mark.requirement("U4", "A2")
async def test_no_redirect_is_followed_and_the_token_stays_here() -> None:
    async with Portal(captive_portal()) as elsewhere, Portal(redirects(f"{elsewhere.url}/login")) as portal:
        queue = HttpsQueue(settings(portal), HUB, ManualClock())
        with pytest.raises(LinkError):
            await queue.upload(records(HUB, 1))
        await queue.close()

    assert len(portal.asked) == 1
    assert elsewhere.asked == []


async def test_no_cookie_is_kept() -> None:
    async with facing(answers("503 Busy", b"", headers={"Set-Cookie": "id=1; Path=/"})) as (queue, portal):
        for _ in range(2):
            with pytest.raises(LinkError):
                await queue.upload(records(HUB, 1))

    assert all("cookie" not in asked.headers for asked in portal.asked)


@pytest.mark.requirement("U8")
async def test_an_upload_says_what_it_is_and_large_ones_are_compressed() -> None:
    small, large = records(HUB, 1), records(HUB, *range(1, 200))
    async with facing(proves()) as (queue, portal):
        await queue.upload(small)
        await queue.upload(large)

    first, second = portal.asked
    assert first.path.startswith(f"/v1/hubs/{HUB}/events?")
    assert (first.query("batch"), first.query("epoch"), first.query("stream")) == (
        NONCE,
        small.epoch,
        Stream.RECORD,
    )
    assert first.headers["authorization"] == f"Bearer {TOKEN}"
    assert first.headers["content-type"] == "application/cloudevents-batch+json"
    assert "content-encoding" not in first.headers
    assert second.headers["content-encoding"] == "gzip"
    assert len(json.loads(gzip.decompress(second.body))) == 199


async def test_a_very_large_upload_is_whole_too() -> None:
    many = batch(HUB, [stored(number, data={"text": "x" * 1000}) for number in range(1, 1001)])
    async with facing(proves(taken=[[1, 1000]])) as (queue, portal):
        answer = await queue.upload(many)

    assert len(answer.taken) == 1000
    assert len(json.loads(gzip.decompress(portal.asked[0].body))) == 1000


@pytest.mark.requirement("Q3")
@pytest.mark.parametrize(
    "commands",
    [
        pytest.param(
            [{"handle": "0" * 32, "envelope": "YQ==", "hold_seconds": 1}] * 2, id="one handle twice"
        ),
        pytest.param(
            [{"handle": f"{n:032x}", "envelope": "YQ==", "hold_seconds": 1} for n in range(3)], id="too many"
        ),
        pytest.param(
            [
                {
                    "handle": "0" * 32,
                    "envelope": b64encode(bytes(COMMAND_BYTES + 1)).decode(),
                    "hold_seconds": 1,
                }
            ],
            id="too large",
        ),
        pytest.param([{"handle": "../x", "envelope": "YQ==", "hold_seconds": 1}], id="no handle"),
        pytest.param([{"handle": "0" * 32, "envelope": "%", "hold_seconds": 1}], id="no base64"),
        pytest.param([{"handle": "0" * 32, "envelope": "YQ=="}], id="no end"),
    ],
)
async def test_commands_that_were_not_asked_for_are_not_taken(commands: list[dict[str, object]]) -> None:
    body = json.dumps({"commands": commands, "waited_seconds": 0}).encode()

    async with facing(answers("200 OK", body)) as (queue, _):
        with pytest.raises(LinkError) as failed:
            await queue.lease(most=2, wait=SECOND, hold=SECOND)

    assert failed.value.trouble is Trouble.BROKEN_ANSWER


@pytest.mark.requirement("Q3", "L5")
async def test_a_loan_is_never_thought_to_last_longer_than_the_queue_thinks() -> None:
    """It is counted from when we asked; an answer that claims to have waited longer than we did lies."""
    lent = {"handle": "0" * 32, "envelope": "YQ==", "hold_seconds": 3000}
    body = json.dumps({"commands": [lent], "waited_seconds": 500}).encode()
    clock = ManualClock()
    async with Portal(answers("200 OK", body)) as portal:
        queue = HttpsQueue(settings(portal), HUB, clock)
        [delivery] = await queue.lease(most=1, wait=SECOND, hold=SECOND * 60)
        await queue.close()

    assert delivery.until == clock.boot() + SECOND * 60


@pytest.mark.requirement("Q3")
async def test_an_acknowledgement_that_answers_about_others_is_none() -> None:
    body = json.dumps({"done": ["1" * 32], "gone": []}).encode()

    async with facing(answers("200 OK", body)) as (queue, _):
        for settle in (queue.acknowledge, queue.hand_back):
            with pytest.raises(LinkError):
                await settle(["0" * 32])
        with pytest.raises(LinkError):
            await queue.extend(["0" * 32], hold=SECOND)


async def test_nothing_to_settle_asks_nothing_and_much_is_asked_in_portions() -> None:
    async with facing(says_nothing(), total_timeout=SECOND) as (queue, portal):
        await queue.acknowledge([])
        with pytest.raises(LinkError):
            await queue.acknowledge([f"{number:032x}" for number in range(100)])

    assert [len(json.loads(asked.body)["handles"]) for asked in portal.asked] == [64]


@pytest.mark.requirement("T5")
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(answers("200 OK", b"x" * (TIME_BYTES + 1)), id="too large"),
        pytest.param(answers("404 Not Found", b'{"reason":"not_found","detail":"signs no time"}'), id="none"),
        pytest.param(captive_portal(), id="a page"),
    ],
)
async def test_no_statement_is_told_as_none(script: Script) -> None:
    async with facing(script) as (queue, _):
        with pytest.raises(LinkError):
            await queue.statement(NONCE)
