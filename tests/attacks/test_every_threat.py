"""Every threat of the list that trust and engine answer has a story against the running agent.

A story bears ``@pytest.mark.threat("T4")``, or its module does. Most are told in this room; those that are a
venue's life as well are told in ``tests/acceptance``, those of a machine's in ``tests/systemd``.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[1]
ROOMS: Final = (TESTS / "attacks", TESTS / "acceptance", TESTS / "systemd")
THREATS: Final = {
    "T1": "a device of the local network publishes commands",
    "T3": "a command or reading is left in the broker",
    "T4": "a signed command is replayed, here or elsewhere",
    "T5": "signed commands are reordered",
    "T2": "a device speaks as another does",
    "T6": "an old policy or an old file comes again",
    "T7": "versions are signed that lock everybody out",
    "T8": "parts of different releases are mixed",
    "T9": "the hub starts in 1970",
    "T10": "the clock jumps, and back",
    "T11": "the same old policy is published for ever",
    "T12": "keys are rotated while the hub is away",
    "T13": "one key counts twice",
    "T14": "the queue is in the wrong hands",
    "T15": "an online key is stolen",
    "T16": "a delivery comes many times, or with other content",
    "T17": "a worker dies between an effect and its record",
    "T18": "a lease lapses while the work goes on",
    "T19": "somebody frees another's lock",
    "T20": "what was fetched ahead is lent again while it waits",
    "T21": "the disk is full",
    "T22": "the card dies: its file system becomes read-only",
    "T23": "the disk fails, or its fsync does",
    "T25": "a state file is damaged, or zeros",
    "T26": "the database is taken away to have commands forgotten",
    "T29": "parsers read one text differently",
    "T30": "numbers that are none",
    "T31": "text that is not what it looks like",
    "T32": "ids that mean something in a topic",
    "T33": "the broker sends what no broker may send",
    "T34": "names and links that lead elsewhere",
    "T35": "a compressed bomb, a full disk",
    "T36": "a file is swapped between its proof and its use",
    "T37": "a download without end, or cut",
    "T39": "an address that leads inside",
    "T40": "a captive portal answers",
    "T41": "certificates that are not in order",
    "T44": "the audit trail cannot be written",
    "T45": "text that means something to a terminal or a log",
    "T46": "secrets where they do not belong",
    "T47": "dead letters are run again unjudged, or all of them",
    "T48": "an approval is reused, forged, or one's own",
    "T49": "somebody else on the hub's machine",
    "T50": "another site's page reaches for the hub's own",
    "T51": "metrics tell of whom, or grow without end",
    "T52": "a breaker is tripped to stop somebody else",
    "T53": "what never works is tried for ever",
    "T54": "a configuration that lets others in",
    "T55": "a process beside the agent is taken over",
    "T56": "the agent stands still, or grows",
}
"""What has to have a story, in a few words."""
AT_THE_PROCESS: Final = {
    "T34": "names and links that lead elsewhere",
    "T38": "a server drips, or falls silent",
    "T39": "an address that leads inside",
    "T41": "certificates that are not in order",
}
"""What is told where it is met: by the real fetching process, whose patience an agent has for a minute."""


def marked(node: ast.AST) -> Iterator[str]:
    """The threats that are named anywhere in a piece of source."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.threat":
            yield from (str(ast.literal_eval(argument)) for argument in call.args)


def stories(room: Path) -> Iterator[tuple[str, frozenset[str]]]:
    """The tests of a room, each with its threats."""
    for path in sorted(room.glob("test_*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        of_module = {threat for node in tree.body if isinstance(node, ast.Assign) for threat in marked(node)}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                own = {threat for decorator in node.decorator_list for threat in marked(decorator)}
                yield f"{path.name}:{node.name}", frozenset(of_module | own)


@pytest.mark.parametrize("threat", THREATS)
def test_it_has_a_story(threat: str) -> None:
    told = [name for room in ROOMS for name, threats in stories(room) if threat in threats]

    assert told, f"nobody tells of {threat}: {THREATS[threat]}"


@pytest.mark.parametrize("threat", AT_THE_PROCESS)
def test_it_has_a_story_where_it_is_met(threat: str) -> None:
    room = [each for each in stories(TESTS / "adapters") if each[0].startswith("test_artifact_")]
    told = [name for name, threats in room if threat in threats]

    assert told, f"nobody tells of {threat}: {AT_THE_PROCESS[threat]}"


def test_every_story_of_this_room_says_of_which_threat_it_is() -> None:
    silent = [name for name, threats in stories(Path(__file__).parent) if not threats]

    assert [name for name in silent if not name.startswith(Path(__file__).name)] == []
