"""Machines that stories of the installed package happen on: they boot, keep their disk, die."""

from pathlib import Path

import pytest

from tests.support.containers import booted, debian, needs_container


@pytest.mark.slow
@needs_container
def test_a_machine_keeps_its_disk_when_its_plug_is_pulled(tmp_path: Path) -> None:
    """And users, services and a loopback of its own."""
    # Given a machine with a running broker, and a file written by an ordinary user
    with booted(debian(), tmp_path / "hub", volumes={"/var/lib/small": 8}) as hub:
        hub.eventually("systemctl", "is-active", "mosquitto", says="active")
        hub.run("sh", "-c", "echo hi > /tmp/mine && cp /tmp/mine /var/lib/mosquitto/mine", user="mosquitto")
        assert "lo:" in hub.run("ip", "-o", "link").stdout
        assert hub.run("ip", "-o", "link").stdout.count("\n") == 1

        # And a small disk of its own, which can be full
        full = hub.run("dd", "if=/dev/zero", "of=/var/lib/small/file", "bs=1M", "count=9", check=False)
        assert "No space left" in full.stderr
        hub.run("sh", "-c", "echo kept > /var/lib/small/file && sync /var/lib/small/file")

        # When it loses its power and comes back
        hub.kill()
        hub.boot()

        # Then its services run again, its disk has the file, and what lay in memory is gone
        hub.eventually("systemctl", "is-active", "mosquitto", says="active")
        assert hub.inside("/var/lib/mosquitto/mine").read_text() == "hi\n"
        assert hub.inside("/var/lib/small/file").read_text() == "kept\n"
        hub.shut_down()
