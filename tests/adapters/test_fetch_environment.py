"""What a process that fetches from strangers is told: what it needs, and no secret."""

from pathlib import Path

import pytest

from edgeagent.adapters.fetcher.environment import environment

pytestmark = [pytest.mark.requirement("F2"), pytest.mark.threat("T39")]


def test_what_is_not_known_to_be_needed_does_not_go_along() -> None:
    needed = {"PATH": "/usr/bin", "LC_ALL": "C.UTF-8", "SSL_CERT_FILE": "/etc/ours.pem"}
    told_to_us = {
        "NOTIFY_SOCKET": "/run/notify",
        "CREDENTIALS_DIRECTORY": "/run/credentials",
        "HOME": "/root",
    }
    others = {"https_proxy": "http://elsewhere:1", "ALL_PROXY": "http://elsewhere:2", "LD_PRELOAD": "evil.so"}
    ours = needed | told_to_us | others | {"EDGEAGENT_TOKEN": "secret"}

    told = environment(ours, ["/opt/edgeagent/lib", "/usr/lib/python3"], Path("/tmp/scratch"))  # noqa: S108 - a name

    assert told == needed | {"PYTHONPATH": "/opt/edgeagent/lib:/usr/lib/python3", "TMPDIR": "/tmp/scratch"}  # noqa: S108
