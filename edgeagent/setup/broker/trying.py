"""Trying a configuration with the mosquitto that is installed, before anything of it is put in place.

mosquitto 2 has no way to check a file without taking it. So it is started on a copy of the whole
configuration, that of others too but for bridges, in a folder of its own, on free ports of this machine that
nobody else knows; then it is seen that it comes up, lets in the agent and nobody without a name, and lets
each login speak for itself and for nobody else. The logins have a password of the moment there. It is gone
afterwards, whatever it does.
"""

import asyncio
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from pydantic import SecretBytes

from edgeagent.adapters.mqtt.probe import Probe, takes
from edgeagent.adapters.mqtt.settings import MqttSettings
from edgeagent.adapters.mqtt.words import FAILURE
from edgeagent.clock import Clock
from edgeagent.contracts.mqtt import Outgoing
from edgeagent.errors import RejectedError, TransientError
from edgeagent.ids import topic
from edgeagent.ports.links import LinkError
from edgeagent.setup.broker.candidate import LOOPBACK, Candidate, candidate_of
from edgeagent.setup.broker.planning import BrokerPlan
from edgeagent.setup.broker.wish import Wish

_WAIT: Final = timedelta(seconds=5)
_PATIENCE: Final = 10.0
_STEP: Final = 0.02
_MOST_LOGINS: Final = 64
_TRIES: Final = 3


def try_plan(plan: BrokerPlan, clock: Clock) -> None:
    """See that the broker takes a plan, and does with it what it is to do.

    Raises:
        RejectedError: it does not; says what it said.
        TransientError: mosquitto is not installed, or could not be tried.
    """
    wanted = plan.wish
    if wanted is None:
        return
    with tempfile.TemporaryDirectory(prefix="edgeagent-broker-") as name:
        logins = list(dict.fromkeys(access.login for access in plan.access))[:_MOST_LOGINS]
        candidate = candidate_of(plan, wanted, Path(name), logins)
        with _running(candidate) as there:
            asyncio.run(_judge(plan, there, clock))


@contextmanager
def _running(candidate: Candidate) -> Iterator[Wish]:
    """A mosquitto with the candidate, for as long as it is judged: where it is found.

    Raises:
        RejectedError: it does not come up.
        TransientError: there is none.
    """
    program = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if program is None:
        raise TransientError("mosquitto is not installed: apt-get install mosquitto")
    log, said = candidate.main.with_name("log"), ""
    for _ in range(_TRIES):
        attempt = candidate.laid_out()
        with log.open("wb") as told:
            process = subprocess.Popen(  # noqa: S603 - the installed broker, on a file of ours
                [program, "-c", str(candidate.main)], stdin=subprocess.DEVNULL, stdout=told, stderr=told
            )
        try:
            if _comes_up(process, log):
                yield attempt.wish
                return
        finally:
            process.kill()
            process.wait(_PATIENCE)
        said = log.read_text("utf-8", "replace")
        if "in use" not in said:
            break
    faults = [line.partition(": ")[2] for line in said.splitlines() if "rror" in line]
    raise RejectedError(
        f"mosquitto does not take it: {'; '.join(faults) or said.strip() or 'it says nothing'}"
    )


def _comes_up(process: subprocess.Popen[bytes], log: Path) -> bool:
    end = time.monotonic() + _PATIENCE
    while process.poll() is None and time.monotonic() < end:
        # Whatever else it has to tell may stand below that.
        if any(line.endswith("running") for line in log.read_text("utf-8", "replace").splitlines()):
            return True
        time.sleep(_STEP)
    return False


async def _judge(plan: BrokerPlan, wanted: Wish, clock: Clock) -> None:
    """See who comes in and what they may do there.

    Raises:
        RejectedError: what is not as it is to be.
    """
    agent = settings_of(wanted.agent_port, wanted.agent, wanted.password)
    strangers = {
        "who has no name": replace(agent, username=None, password=None),
        "who has no name, as a device": replace(agent, port=wanted.port, username=None, password=None),
        "the agent's name with another password": replace(agent, password=SecretBytes(b"another")),
    }
    for who, settings in strangers.items():
        if await takes(settings, clock):
            raise RejectedError(f"mosquitto would let in {who}")
    logins = list({access.login: access for access in plan.access}.values())[:_MOST_LOGINS]
    commands = [_under(access.read[0]) for access in logins if access.read]
    await _speaks(agent, commands, ["edgeagent-probe/nobody"], clock)
    for place, access in enumerate(logins):
        other = logins[(place + 1) % len(logins)]
        theirs = () if other is access else (*other.write[:1], *other.read[:1])
        device = settings_of(wanted.port, access.login, wanted.password)
        forbidden = [_under(each) for each in theirs] + ["edgeagent-probe/nobody"]
        await _speaks(device, [_under(access.write[0])], forbidden, clock)


async def _speaks(
    settings: MqttSettings, allowed: Sequence[str], forbidden: Sequence[str], clock: Clock
) -> None:
    probe = Probe(settings, clock)
    try:
        await probe.open()
        for name in (*allowed, *forbidden):
            code = await probe.publish(Outgoing(topic=topic(name), payload=b"", expires_in=1))
            if (code >= FAILURE) is (name in allowed):
                may = "may not" if name in allowed else "may"
                raise RejectedError(f"with mosquitto {settings.username} {may} publish on {name}")
    except LinkError as why:
        raise RejectedError(f"mosquitto does not take {settings.username}: {why}") from why
    finally:
        probe.leave()


def settings_of(port: int, login: str | None, password: str | None) -> MqttSettings:
    """How to come to our broker from this machine, as somebody or as nobody."""
    return MqttSettings(
        host=LOOPBACK,
        port=port,
        username=login,
        password=None if password is None else SecretBytes(password.encode()),
        connect_timeout=_WAIT,
        answer_timeout=_WAIT,
    )


def _under(name: str) -> str:
    """A topic under a filter."""
    return "/".join("x" if level in {"+", "#"} else level for level in name.split("/"))
