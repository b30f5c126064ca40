"""Asking the agent: what is believed, and for how long it is waited."""

import asyncio
import socket
from pathlib import Path

import pytest

from edgeagent.cli.asking import Agent
from edgeagent.cli.failing import AgentDownError, AskingRefusedError
from edgeagent.contracts.door import encode
from edgeagent.contracts.reports.refusal import Refusal
from edgeagent.contracts.reports.status import OutboxReport
from edgeagent.errors import MalformedError
from tests.cli.building import http, lonely_terminal, something_else

OUTBOX = encode(OutboxReport(streams={}))


async def asked(agent: Path, answer: bytes) -> OutboxReport:
    """What comes of this answer."""
    async with something_else(agent, answer):
        return await asyncio.to_thread(Agent(agent).get, "/v1/outbox", OutboxReport)


async def test_a_whole_answer_is_taken(tmp_path: Path) -> None:
    async with lonely_terminal(tmp_path) as typing:
        report = await asked(typing.run_dir / "admin.sock", http("200 OK", OUTBOX))

        assert report.streams == {}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x00\x01\x02\r\n\r\n", id="another protocol"),
        pytest.param(http("200 OK", OUTBOX, missing=1), id="cut off"),
        pytest.param(http("200 OK", OUTBOX)[:20], id="cut off early"),
    ],
)
async def test_what_is_no_whole_answer_is_no_agent(tmp_path: Path, answer: bytes) -> None:
    async with lonely_terminal(tmp_path) as typing:
        with pytest.raises(AgentDownError):
            await asked(typing.run_dir / "admin.sock", answer)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"streams": {}, "more": 1}', b"\xff"])
async def test_a_whole_answer_that_says_something_else_is_not_taken(tmp_path: Path, body: bytes) -> None:
    async with lonely_terminal(tmp_path) as typing:
        with pytest.raises(MalformedError):
            await asked(typing.run_dir / "admin.sock", http("200 OK", body))


async def test_a_no_comes_with_its_reason_and_advice(tmp_path: Path) -> None:
    refusal = http("409 Conflict", encode(Refusal(error="it cannot be", advice="try another")))
    async with lonely_terminal(tmp_path) as typing:
        with pytest.raises(AskingRefusedError, match="it cannot be") as caught:
            await asked(typing.run_dir / "admin.sock", refusal)

        assert caught.value.advice == "try another"


async def test_a_no_without_words_still_says_what_it_is(tmp_path: Path) -> None:
    async with lonely_terminal(tmp_path) as typing:
        with pytest.raises(AskingRefusedError, match="the agent answered 500"):
            await asked(typing.run_dir / "admin.sock", http("500 Oops", b"<html>"))


async def test_one_that_hangs_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    async with lonely_terminal(tmp_path) as typing:
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(str(typing.run_dir / "admin.sock"))
            silent.listen()

            with pytest.raises(AgentDownError):
                await asyncio.to_thread(
                    Agent(typing.run_dir / "admin.sock").get, "/v1/outbox", OutboxReport, patience=0.05
                )
