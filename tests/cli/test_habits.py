"""What every word of the command line has in common, whichever it is: a new one is held to it by itself."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgeagent.cli.main import parser
from edgeagent.cli.parsing import Parser
from tests.cli.building import Said, lonely_terminal, typed

pytestmark = pytest.mark.requirement("G3")

LASTING = {"run", "worker", "issuer serve"}
"""They run until they are told to stop."""
INNER = {"fetch-policy", "fetch-artifact"}
"""What the agent itself starts."""
ALONE = {
    "health": 2,
    "config check": 0,
    "config keys": 0,
    "issuer keys new": 0,
    "issuer policy sample": 0,
}
"""What has an answer also where there is nobody and nothing; with its exit status."""
QUEUE = ("--queue", "http://127.0.0.1:9", "--token-file", "none.token")
TYPED: dict[str, tuple[str, ...]] = {
    "run": ("--config", "none.toml"),
    "worker": ("--lane", "high", "--config", "none.toml"),
    "health": (),
    "status": (),
    "devices list": (),
    "devices show": ("dev-1",),
    "devices admit": ("dev-1",),
    "devices forget": ("dev-1",),
    "send": ("dev-1", "power", "on=true"),
    "commands list": (),
    "commands show": ("c-1234",),
    "commands trace": ("c-1234",),
    "commands approve": ("c-1234", "--yes"),
    "dead-letters list": (),
    "dead-letters show": ("1",),
    "dead-letters replay": ("1",),
    "dead-letters discard": ("1", "--why", "seen"),
    "dead-letters export": ("letters.jsonl",),
    "breakers list": (),
    "breakers show": ("power@desk",),
    "breakers trip": ("power@desk", "--reason", "seen"),
    "breakers reset": ("power@desk", "--reason", "seen"),
    "locks list": (),
    "locks release": ("dev-1", "--reason", "seen"),
    "policy show": (),
    "policy explain": ("power",),
    "hub stop": ("all",),
    "hub resume": ("all",),
    "hub stops": (),
    "clock show": (),
    "clock confirm": ("--yes",),
    "clock reset-floor": ("--yes",),
    "outbox stats": (),
    "artifacts list": (),
    "artifacts show": ("plug-1",),
    "artifacts verify": (),
    "artifacts fetch": ("plug-fw-2",),
    "artifacts gc": (),
    "firmware plan": ("c-1234",),
    "firmware status": (),
    "firmware pause": ("c-1234", "--reason", "seen"),
    "firmware resume": ("c-1234", "--reason", "seen"),
    "firmware abort": ("c-1234", "--reason", "seen"),
    "firmware cancel": ("c-1234", "--reason", "seen"),
    "audit list": (),
    "audit show": ("1",),
    "audit verify": (),
    "audit export": ("trail.jsonl",),
    "backup": ("copy.db",),
    "drill dead-letter": (),
    "drill lock": (),
    "drill crash": (),
    "drill duplicate": (),
    "config check": (),
    "config keys": (),
    "issuer init": ("venue", "--policy", "none.toml", "--passphrase-file", "none"),
    "issuer refresh": ("--folder", "none"),
    "issuer repository check": ("--folder", "none"),
    "issuer keys new": ("desk.pem",),
    "issuer keys show": ("none.pub",),
    "issuer keys rotate": ("root", "--folder", "none"),
    "issuer keys revoke": ("root", "--folder", "none"),
    "issuer token new": ("desk", "issuer", "--tokens", "none/tokens"),
    "issuer policy sign": ("none.toml", "--key", "none.pem", "--out", "policy.json"),
    "issuer policy publish": ("none.toml", "--folder", "none"),
    "issuer policy sample": (),
    "issuer artifact role add": ("plugs", "--for", "tasmota", "--folder", "none"),
    "issuer artifact role rotate": ("plugs", "--folder", "none"),
    "issuer artifact role list": ("--folder", "none"),
    "issuer artifact add": (
        *("none.bin", "--id", "plug-1", "--group", "plugs", "--family", "tasmota", "--model", "*"),
        *("--version", "1.0.0", "--folder", "none"),
    ),
    "issuer artifact release": ("plug-1", "--folder", "none"),
    "issuer artifact revoke": ("plug-1", "--folder", "none"),
    "issuer artifact list": ("--folder", "none"),
    "issuer command sign": (
        *("dev-1", "power", "on=true", "--key", "none.pem", "--hub", "venue-7"),
        *("--epoch", "0" * 20),
    ),
    "issuer command approve": ("none.json", "--key", "none.pem"),
    "issuer command send": ("none.json", *QUEUE),
    "issuer command watch": ("venue-7", "c-1234", *QUEUE),
    "issuer command resign": ("--file", "none.json", "--key", "none.pem"),
    "issuer order sign": (
        *("stop", "all", "--key", "none.pem", "--hub", "venue-7"),
        *("--epoch", "0" * 20),
    ),
    "issuer send": ("none.json", *QUEUE),
    "issuer watch": ("venue-7", "c-1234", *QUEUE),
    "issuer refusals": QUEUE,
    "issuer hub show": ("venue-7", *QUEUE),
    "issuer prove": ("venue-7", "c-1234", *QUEUE),
    "issuer prove-check": ("none.json",),
    "issuer serve": ("--listen", "nowhere", "--database", "none/queue.db", "--tokens", "none/tokens"),
}
"""Every word that can be typed, with what makes it whole."""


def words_of(top: Parser, before: tuple[str, ...] = ()) -> Iterator[str]:
    """All that can be typed."""
    if top.nouns is None:
        yield " ".join(before)
        return
    for word, following in top.nouns.choices.items():
        assert isinstance(following, Parser)
        yield from words_of(following, (*before, word))


async def says(folder: Path, words: str, *options: str) -> Said:
    """What a word comes to at a hub on which no agent runs, with ``--json``."""
    async with lonely_terminal(folder) as lonely:
        return await lonely.types(*words.split(), *TYPED[words], "--json", *options)


def test_all_words_are_looked_at_here() -> None:
    assert set(words_of(parser())) - INNER == set(TYPED)


@pytest.mark.parametrize("words", sorted(set(TYPED) - set(ALONE)))
async def test_what_fails_says_so_in_one_json_object_with_what_to_type_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(tmp_path)

    said = await says(tmp_path, words)

    assert said.status in {1, 69, 78}
    told = json.loads(said.out)
    assert told.keys() == {"error"}
    assert told["error"].keys() == {"kind", "message", "next"}
    assert all(told["error"].values()), told
    assert said.err == ""
    if said.status == 69:
        assert told["error"]["kind"] == "agent_down"
        assert "edgeagent health" in told["error"]["next"]


@pytest.mark.parametrize("words", sorted(ALONE))
async def test_what_has_an_answer_alone_gives_it_as_one_json_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(tmp_path)

    said = await says(tmp_path, words)

    assert (said.status, said.err) == (ALONE[words], "")
    assert isinstance(said.json, dict)


@pytest.mark.parametrize("words", sorted(TYPED))
async def test_the_same_fails_in_words_for_people_with_the_same_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    if words in ALONE:
        return
    monkeypatch.chdir(tmp_path)

    async with lonely_terminal(tmp_path) as lonely:
        said = await lonely.types(*words.split(), *TYPED[words])

    assert (said.status, said.out) == ((await says(tmp_path, words)).status, "")
    *_, what, following = said.err.splitlines()
    assert what.startswith("edgeagent: ")
    assert following.startswith("  next: ")
    assert "Traceback" not in said.err


@pytest.mark.parametrize("words", sorted(TYPED))
def test_a_word_too_much_is_told_with_the_help_of_what_was_typed(words: str) -> None:
    said = typed(*words.split(), *TYPED[words], "--nonsense", "--json")

    assert said.status == 2
    assert json.loads(said.out)["error"] == {
        "kind": "words",
        "message": "there is no place for '--nonsense'",
        "next": f"edgeagent {words} --help",
    }
    assert said.err == ""


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (("comands", "list"), "commands"),
        (("commands", "lst"), "list"),
        (("dead-leters", "list"), "dead-letters"),
        (("issuer", "comand", "sign"), "command"),
        (("health", "--jsn"), "--json"),
        (("audit", "list", "--subjct=x"), "--subject"),
        (("send", "dev-1", "powr"), "power"),
        (("send", "dev-1", "power", "onn=true"), "on"),
        (("hub", "stop", "teir:high"), "tier:high"),
        (("dead-letters", "list", "--reason", "stail"), "stale"),
        (("health", "--color", "alway"), "always"),
    ],
)
async def test_what_is_nearly_right_is_guessed_at(tmp_path: Path, words: tuple[str, ...], near: str) -> None:
    async with lonely_terminal(tmp_path) as lonely:
        said = await lonely.types(*words)

        assert said.status in {1, 2}
        assert f"did you mean {near}?" in said.err
        assert "  next: edgeagent " in said.err


@pytest.mark.requirement("V5")
async def test_what_is_not_near_anything_is_not_guessed_at_and_acts_on_no_terminal(tmp_path: Path) -> None:
    async with lonely_terminal(tmp_path) as lonely:
        for words in (["\x1b[2Jxyzzy"], ["commands", "\x1b[2J"], ["health", "--\x1b[2J"]):
            said = await lonely.types(*words)

            assert said.status == 2
            assert "did you mean" not in said.err
            assert "\x1b" not in said.err


async def test_options_may_stand_anywhere_but_behind_two_dashes(tmp_path: Path) -> None:
    async with lonely_terminal(tmp_path) as lonely:
        before = await lonely.types("--json", "--utc", "--color", "never", "status")
        behind = await lonely.types("status", "--color=never", "--wide", "--json", "--utc")
        operand = await lonely.types("commands", "show", "--", "--json")

        assert (before.status, before.out) == (behind.status, behind.out)
        assert before.status == 69
        assert operand.out == ""


def test_a_queue_that_is_away_is_told_with_how_to_look_for_it(tmp_path: Path) -> None:
    (tmp_path / "desk.token").write_text("a-token-of-a-desk")
    away = "http://127.0.0.1:9"

    said = typed(
        *("issuer", "hub", "show", "venue-7", "--json"),
        *("--queue", away, "--token-file", str(tmp_path / "desk.token")),
    )

    error = json.loads(said.out)["error"]
    assert (said.status, error["kind"], said.err) == (1, "peer", "")
    assert error["next"].startswith(f"curl -v {away}")
