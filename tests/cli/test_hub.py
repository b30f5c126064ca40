"""``edgeagent hub``, ``policy`` and ``commands approve``: typed, over the real socket."""

from pathlib import Path

import pytest

from edgeagent.contracts.policy import ApprovalRule, Bans
from edgeagent.contracts.reports.approvals import ApprovalReport
from edgeagent.contracts.reports.policy import ActionReport, PolicyShown
from edgeagent.contracts.reports.switch import StopsReport
from edgeagent.ids import artifact_id, digest
from tests.cli.commanded import commanded
from tests.flows.approvals import have_a_say
from tests.flows.signing import POWER, REBOOT, TV
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("B3", "G1")


async def test_a_kind_is_stopped_shown_and_resumed(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        await terminal.hub.television()

        none = await terminal.types("hub", "stops")
        stopped = await terminal.types("hub", "stop", "action:power", "--why", "smoke\x1b[31m")
        refused = await terminal.types("send", TV, "power", "on=true")
        shown = (await terminal.types("--json", "hub", "stops")).report(StopsReport)
        resumed = await terminal.types("hub", "resume", "action:power", "--reason", "no smoke")
        done = await terminal.types("send", TV, "power", "on=true")

        assert (none.status, none.out) == (0, "nothing is stopped\n")
        assert stopped.status == 0
        assert stopped.out.splitlines()[1].split()[:2] == ["action:power", "stopped"]
        assert "\x1b" not in stopped.out
        assert (refused.status, "stopped" in refused.out) == (1, True)
        [stop] = shown.stops
        assert (stop.stopped, stop.by.split()[0][:4]) == (True, "uid:")
        assert "nothing is stopped" in resumed.out
        assert done.status == 0


@pytest.mark.requirement("H4")
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        pytest.param("id = 7\nzome = 1\n{run_dir}", "hub.id: has to be text in quotes", id="two mistakes"),
        pytest.param("id = \n{run_dir}", ":2:6: not TOML", id="no TOML"),
        pytest.param('id = "venue-7"\n{run_dir}\n[broker', ":4: not TOML", id="no TOML behind it"),
    ],
)
async def test_a_configuration_that_is_wrong_keeps_nobody_from_stopping_what_the_agent_does(
    tmp_path: Path, wrong: str, told: str
) -> None:
    async with commanded(tmp_path) as terminal:
        terminal.config.write_text("[hub]\n" + wrong.format(run_dir=f'run_dir = "{terminal.run_dir}"'))

        stopped = await terminal.types("hub", "stop", "all", "--why", "smoke")
        shown = await terminal.types("--json", "hub", "stops")
        health = await terminal.types("health")

        assert stopped.status == 0
        assert stopped.err.startswith("edgeagent: the configuration is wrong, the agent goes on with an earl")
        assert (stopped.err.count("\n"), ", and 1 more" in stopped.err) == (2, "zome" in wrong)
        assert told in stopped.err
        assert "next: edgeagent config check" in stopped.err
        assert terminal.hub.rows("SELECT count(*) FROM stops") == [(1,)]
        assert [stop.kind for stop in shown.report(StopsReport).stops] == ["all"]
        assert health.status == 2
        assert "configuration" in health.out
        assert "commands are refused: all by" in health.out


@pytest.mark.requirement("H4")
async def test_where_no_agent_answers_or_the_file_itself_is_meant_every_mistake_comes_first(
    tmp_path: Path,
) -> None:
    async with commanded(tmp_path) as terminal:
        right = terminal.config.read_text()
        terminal.config.write_text(right.replace('"venue-7"', "7\nzome = 1"))

        again = await terminal.types("config", "reload")
        (terminal.run_dir / "admin.sock").rename(terminal.run_dir / "away.sock")
        down = await terminal.types("hub", "stop", "all")
        terminal.config.write_text(right.replace("[hub]", ""))
        nowhere = await terminal.types("hub", "stop", "all")
        (terminal.run_dir / "away.sock").rename(terminal.run_dir / "admin.sock")

        for said in (again, down):
            assert (said.status, said.out) == (78, "")
            assert "config.toml:2: hub.id" in said.err
            assert "config.toml:3: hub.zome" in said.err
        assert nowhere.status == 78
        assert terminal.hub.rows("SELECT 1 FROM stops") == []


@pytest.mark.parametrize("words", [("stop", "everything"), ("stop", "tier:none"), ("resume", "all")])
async def test_what_is_no_kind_or_is_not_stopped_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    async with commanded(tmp_path) as terminal:
        said = await terminal.types("hub", *words)

        assert said.status == 1
        assert said.err.startswith("edgeagent: ")
        assert ("tier:high, or action:NAME" in said.err) is (words[1] != "all")
        assert terminal.hub.rows("SELECT 1 FROM stops") == []


@pytest.mark.requirement("O5")
async def test_health_tells_what_is_stopped_and_what_waits(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        await terminal.hub.television()
        await have_a_say(terminal.hub)
        await terminal.hub.admits(terminal.hub.command(REBOOT))

        waiting = await terminal.types("health")
        await terminal.types("hub", "stop", "all")
        stopped = await terminal.types("health")

        assert "1 commands wait for approval" in waiting.out
        assert waiting.status == 1
        assert "commands are refused: all by uid:" in stopped.out
        assert stopped.status == 2


@pytest.mark.requirement("T7")
async def test_a_command_is_shown_and_approved(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        await terminal.hub.television()
        await have_a_say(terminal.hub)
        command = terminal.hub.command(REBOOT)
        await terminal.hub.admits(command)

        listed = await terminal.types("commands", "list")
        unasked = await terminal.types("commands", "approve", command.id)
        assert terminal.hub.rows("SELECT 1 FROM approvals") == []
        approved = await terminal.types("commands", "approve", command.id, TV, "--yes")

        assert "needs_approval" in listed.out
        row = await terminal.hub.row(command)
        assert unasked.status == 1
        assert "--yes" in unasked.err
        for shown in (TV, "reboot", terminal.hub.keys.desk.id, row.sha256):
            assert shown in unasked.out
        assert approved.status == 0
        await eventually(lambda: terminal.hub.rows("SELECT 1 FROM inbox WHERE state = 'held'") == [])


@pytest.mark.requirement("T7")
async def test_an_approval_is_told_as_json_and_one_that_cannot_be_is_refused(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        await terminal.hub.television()
        await have_a_say(terminal.hub)
        command = terminal.hub.command(REBOOT)
        await terminal.hub.admits(command)

        elsewhere = await terminal.types("commands", "approve", command.id, "tv-9", "--yes")
        unknown = await terminal.types("commands", "approve", "c-9", "--yes")
        said = await terminal.types("--json", "commands", "approve", command.id, "--yes")

        assert (elsewhere.status, unknown.status) == (1, 1)
        assert said.report(ApprovalReport).command == command.id


@pytest.mark.requirement("T7")
async def test_who_typed_a_command_cannot_approve_it(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        await terminal.hub.television()
        await have_a_say(terminal.hub)
        sent = await terminal.types("send", TV, "reboot", "--wait", "0s")
        [(command,)] = terminal.hub.rows("SELECT command FROM inbox")
        assert (sent.status, f"edgeagent commands approve {command} {TV}" in sent.err) == (4, True)

        said = await terminal.types("commands", "approve", str(command), "--yes")

        assert said.status == 1
        assert "whoever typed" in said.err
        assert terminal.hub.rows("SELECT state, reason FROM inbox") == [("held", "needs_approval")]


async def test_the_policy_is_shown(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        await have_a_say(terminal.hub, ApprovalRule(signatures=2, at_hub=True))

        said = await terminal.types("policy", "show")
        shown = (await terminal.types("--json", "policy", "show")).report(PolicyShown)

        assert said.status == 0
        for word in (
            "version   2",
            terminal.hub.keys.signer.id,
            "chief, deputy",
            "2 signed, or one at the hub",
        ):
            assert word in said.out
        assert shown.roles["guards"].holders == ["guard"]
        assert {action.action for action in shown.actions} >= {POWER, REBOOT}


async def test_an_action_is_explained(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        await have_a_say(terminal.hub)
        await terminal.types("hub", "stop", "tier:high")

        said = await terminal.types("policy", "explain", "reboot", TV)
        told = (await terminal.types("--json", "policy", "explain", "reboot", TV)).report(ActionReport)
        none = await terminal.types("policy", "explain", "volume-up")
        no_rule = await terminal.types("policy", "explain", "brightness")

        assert said.out.startswith(f"reboot on {TV}: stopped by tier:high\n")
        assert "desk, night" in said.out
        assert (told.issuers, told.approvers) == (["desk", "night"], ["chief", "deputy"])
        assert (told.at_this_hub, told.stopped, told.banned) == (True, "tier:high", "")
        assert none.status == 1
        assert "not allowed" in no_rule.out


async def test_what_is_banned_is_said_to_be(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        await terminal.hub.has_policy(
            version=2,
            bans=Bans(actions=frozenset({REBOOT}), devices=frozenset({TV}), keys=frozenset({"night"})),
        )

        action = await terminal.types("policy", "explain", "reboot")
        device = await terminal.types("policy", "explain", "power", TV)
        free = await terminal.types("policy", "explain", "power")
        shown = await terminal.types("policy", "show")

        assert "banned" in action.out
        assert f"nothing to {TV}" in device.out
        assert "free" in free.out
        assert "night" not in free.out
        assert "banned keys: night" in shown.out


@pytest.mark.requirement("V3")
async def test_what_may_be_installed_is_shown(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        approved = {artifact_id("plug-1.4.2"): frozenset({digest("5e" * 32)})}
        await terminal.hub.has_policy(version=2, artifacts=approved)

        shown = await terminal.types("policy", "show")

        assert f"may be installed: plug-1.4.2 with sha256 {'5e' * 32}\n" in shown.out


async def test_without_a_policy_there_is_nothing_to_explain(tmp_path: Path) -> None:
    async with commanded(tmp_path, has_policy=False) as terminal:
        for words, then in ((("show",), "health"), (("explain", "power"), "policy show")):
            said = await terminal.types("policy", *words)

            assert said.status == 1
            assert "no policy" in said.err
            assert f"next: edgeagent {then}\n" in said.err
