"""What a visitor can type into a venue that stays up: whole lines, to be copied."""

import shlex

from firmware_sim.venue.cloud import HUB
from firmware_sim.venue.hub import program
from firmware_sim.venue.stage import Venue


def lines(venue: Venue) -> list[str]:
    """The lines, with words between them that say what each is for."""
    cloud, config = venue.cloud, shlex.quote(str(venue.hub.config))
    agent = f"{program()} --config {config}"
    login = f"--queue {cloud.url} --token-file {shlex.quote(str(cloud.token('issuer')))}"
    desk = shlex.quote(str(cloud.folder / "desk.pem"))
    machine, lamp = venue.appliances["Coffee machine"].id, venue.appliances["Mood lamp"].id
    issuer, signed = f"{program()} issuer", shlex.quote(str(venue.folder / "command.json"))
    return [
        "# metrics and health of the hub, for a browser or curl",
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
        "# a command signed by the cloud, sent, and watched",
        f"{issuer} command sign {machine} power on=false --hub {HUB} --key {desk} {login} > {signed}",
        f"{issuer} send {signed} {login}",
        f"{issuer} watch {HUB} COMMAND {login}   # the id that send printed",
        "",
        "# the audit trail",
        f"{agent} audit list",
        "",
        "# what the appliances did",
        f"tail -f {shlex.quote(str(venue.folder / 'journal.jsonl'))}",
        "",
        "# the agent killed on the spot: it is started again, and nothing is lost",
        f"kill -9 {venue.hub.pid}",
    ]
