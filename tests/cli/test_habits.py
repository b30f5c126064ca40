"""What every word of the command line has in common, whichever it is: a new one is held to it by itself."""

import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from edgeagent.cli.main import NOUNS, parser
from edgeagent.cli.parsing import Parser
from tests.cli.building import Said, lonely_terminal, typed
from tests.support.private import write_private

pytestmark = pytest.mark.requirement("G3")

LASTING = {"run", "worker", "issuer serve"}
"""They run until they are told to stop."""
INNER = {"fetch"}
"""What the agent itself starts."""
ALONE = {
    "health": 2,
    "backup list": 0,
    "support-bundle": 0,
    "setup": 1,
    "broker check": 2,
    "broker plan": 0,
    "broker apply": 0,
    "config check": 0,
    "config keys": 0,
    "config show": 0,
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
    "broker check": ("mqtt://127.0.0.1:9",),
    "broker plan": (),
    "broker apply": (),
    "broker logins list": (),
    "broker logins add": ("dev-1",),
    "broker logins rotate": ("dev-1",),
    "broker logins remove": ("dev-1",),
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
    "backup create": (),
    "backup list": (),
    "backup restore": ("none", "--yes"),
    "support-bundle": ("--yes",),
    "drill dead-letter": (),
    "drill lock": (),
    "drill crash": (),
    "drill duplicate": (),
    "config check": (),
    "config keys": (),
    "config show": (),
    "config reload": (),
    "setup": ("--claim", "EA1-none", "--yes"),
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
    "issuer hub revoke": ("venue-7", *QUEUE),
    "issuer ca init": ("--folder", "/dev/null/ca", "--passphrase-file", "none"),
    "issuer ca server": ("localhost", "--folder", "none"),
    "issuer ca rotate": ("--folder", "none", "--passphrase-file", "none"),
    "issuer ca show": ("--folder", "none"),
    "issuer claim new": ("venue-7", "--zone", "UTC", "--root", "none.json", *QUEUE),
    "issuer claim list": QUEUE,
    "issuer claim revoke": ("venue-7", *QUEUE),
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


@pytest.mark.parametrize("noun", NOUNS)
def test_a_first_word_loads_what_can_be_typed_with_it_and_no_more(noun: str) -> None:
    some, everything = parser(noun).nouns, parser().nouns

    assert some is not None
    assert everything is not None
    assert {word for word, module in NOUNS.items() if module == NOUNS[noun]} == set(some.choices)
    assert set(some.choices) < set(everything.choices)
    assert everything.choices[noun].format_help() == some.choices[noun].format_help()


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
        (("setup", "--clam", "EA1-none"), "--claim"),
        (("setup", "--clai=EA1-none", "--yes"), "--claim"),
        (("setup", "--brokr", "guest", "check"), "--broker"),
        (("send", "--if", "3", "dev-1", "power", "on=true"), "--if-version"),
        (("dev", "list"), "devices"),
        (("issuer", "clam", "list", "--queue", "https://q.example"), "claim"),
    ],
)
async def test_what_is_nearly_right_is_guessed_at(tmp_path: Path, words: tuple[str, ...], near: str) -> None:
    async with lonely_terminal(tmp_path) as lonely:
        said = await lonely.types(*words)

        assert said.status in {1, 2}
        assert f"did you mean {near}?" in said.err
        assert "  next: edgeagent " in said.err


# A code begins with its secret: with that much of it somebody else becomes the hub.
@pytest.mark.requirement("A2", "H5")
@pytest.mark.parametrize(
    "words",
    [
        ("setup", "CODE"),
        ("setup", "--clam", "CODE"),
        ("setup", "--clam=CODE"),
        ("setup", "check", "CODE"),
        ("setup", "--broker", "CODE"),
        ("CODE",),
        ("status", "CODE"),
    ],
)
async def test_a_claim_code_in_a_wrong_place_is_not_said_again(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    code = "EA1-MFRGGZDF-MZTWQ2LK-NNWG23TP-OBYXE43U-OV3HO6DZ"
    async with lonely_terminal(tmp_path) as lonely:
        for option, written in (("--utc", code), ("--json", code.lower()), ("--utc", code.replace("-", ""))):
            said = await lonely.types(option, *(word.replace("CODE", written) for word in words))

            assert said.status == 2
            assert "mfrggzdf" not in (said.out + said.err).lower()
            is_hinted = "a claim code goes behind --claim" in said.out + said.err
            assert is_hinted is (words in {("setup", "CODE"), ("setup", "--broker", "CODE")})


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
    write_private(tmp_path / "desk.token", "a-token-of-a-desk")
    away = "http://127.0.0.1:9"

    said = typed(
        *("issuer", "hub", "show", "venue-7", "--json"),
        *("--queue", away, "--token-file", str(tmp_path / "desk.token")),
    )

    error = json.loads(said.out)["error"]
    assert (said.status, error["kind"], said.err) == (1, "peer", "")
    assert error["next"].startswith(f"curl -v {away}")


def test_it_says_which_one_it_is_in_words_and_as_json() -> None:
    assert typed("--version").out == f"edgeagent {version('edgeagent')}\n"
    assert json.loads(typed("--version", "--json").out) == {"version": version("edgeagent")}
