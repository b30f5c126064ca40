"""Issuers that share nothing but a key: their commands are all different, and in the order of time."""

import subprocess
import sys
from pathlib import Path

import pytest

from edgeagent.issuer.keys import PrivateKey, save_key
from edgeagent.issuer.resigning import command_in
from tests.support.agents import ROOT

# A replica: it has the key, and signs as fast as it can from the moment on at which it is told to.
REPLICA = """
import sys
from pathlib import Path
from edgeagent.ids import hub_id
from edgeagent.issuer.commands import Issuer
from edgeagent.issuer.keys import load_key
from tests.issuer.building import intent, real_clock

issuer = Issuer([load_key(Path(sys.argv[1]))], real_clock())
print("ready", flush=True)
sys.stdin.readline()
for _ in range(100):
    print(issuer.sign(intent(hub_id("venue-7"))).envelope.decode())
"""


@pytest.mark.slow
@pytest.mark.requirement("P1", "T4")
def test_two_replicas_sign_side_by_side_without_a_shared_counter(tmp_path: Path) -> None:
    save_key(PrivateKey.new(), tmp_path / "desk.pem")
    replicas = [
        subprocess.Popen(
            [sys.executable, "-c", REPLICA, str(tmp_path / "desk.pem")],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for replica in replicas:
        assert replica.stdout is not None
        assert replica.stdout.readline() == "ready\n"

    for replica in replicas:
        assert replica.stdin is not None
        replica.stdin.write("go\n")
        replica.stdin.flush()
    signed = [replica.communicate(timeout=60)[0].splitlines() for replica in replicas]

    commands = [[command_in(line.encode()) for line in lines] for lines in signed]
    together = [command for of_one in commands for command in of_one]
    assert len(together) == 200
    assert len({command.id for command in together}) == 200
    assert len({command.sequence for command in together}) == 200
    for of_one in commands:
        assert [command.sequence for command in of_one] == sorted(command.sequence for command in of_one)
    by_time = sorted(together, key=lambda command: command.sequence)
    # To the millisecond; within one, chance decides.
    times = [
        command.issued_at.replace(microsecond=command.issued_at.microsecond // 1000 * 1000)
        for command in by_time
    ]
    assert times == sorted(times)
