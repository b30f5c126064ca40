"""What a visitor can type into a venue that stays up: whole lines, to be copied."""

import shlex

from firmware_sim.venue.approved import ARTIFACT, sha256
from firmware_sim.venue.hub import program
from firmware_sim.venue.policy import HUB
from firmware_sim.venue.stage import Venue


def lines(venue: Venue) -> list[str]:
    """The lines, with words between them that say what each is for."""
    agent = f"{program()} --config {shlex.quote(str(venue.hub.config))}"
    machine, lamp = venue.appliances["Coffee machine"].id, venue.appliances["Mood lamp"].id
    sensor = venue.appliances["Cellar air"].id
    return [
        "# the hub's page, for a browser; metrics and health, for curl",
        f"http://{venue.hub.web}/",
        f"curl http://{venue.hub.web}/metrics",
        f"curl http://{venue.hub.web}/healthz",
        "",
        "# how the hub stands, and its devices",
        f"{agent} health",
        f"{agent} status",
        f"{agent} devices list",
        f"{agent} devices show {machine}",
        "",
        "# a command typed at the hub",
        f"{agent} send {lamp} brightness level=70",
        f"{agent} commands list",
        "",
        *_signed(venue, agent, machine, lamp),
        "",
        "# firmware: what may be installed, an update, and how the updates of lists stand",
        f"{agent} artifacts list",
        f"{agent} send {sensor} install artifact={ARTIFACT} digest={sha256()}",
        f"{agent} firmware status",
        "",
        "# the audit trail; what was stopped by itself; what is kept for somebody to look at",
        f"{agent} audit list",
        f"{agent} breakers list",
        f"{agent} dead-letters list",
        "",
        "# what the appliances did",
        f"tail -f {shlex.quote(str(venue.folder / 'journal.jsonl'))}",
        "",
        "# the agent killed on the spot: it is started again, and nothing is lost",
        f"kill -9 {venue.hub.pid}",
    ]


def _signed(venue: Venue, agent: str, machine: str, lamp: str) -> list[str]:
    """What the cloud signs, and what somebody at the hub has to agree to."""
    cloud = venue.cloud
    login = f"--queue {cloud.url} --token-file {shlex.quote(str(cloud.token('issuer')))}"
    desk, signed = (
        shlex.quote(str(file)) for file in (cloud.folder / "desk.pem", venue.folder / "command.json")
    )
    issuer = f"{program()} issuer"
    return [
        "# a command signed by the cloud, sent, and watched",
        f"{issuer} command sign {machine} power on=false --hub {HUB} --key {desk} {login} > {signed}",
        f"{issuer} send {signed} {login}",
        f"{issuer} watch {HUB} COMMAND {login}   # the id that send printed",
        "",
        "# a reboot: somebody at the hub has to agree, then the worker does it",
        f"{issuer} command sign {lamp} reboot --hub {HUB} --key {desk} {login} > {signed}",
        f"{issuer} send {signed} {login}",
        f"{agent} commands approve COMMAND {lamp}   # the id that send printed",
    ]
