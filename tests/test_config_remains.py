"""Where the agent is, as far as a configuration that is wrong still tells."""

from pathlib import Path
from typing import Final

import pytest

from edgeagent.config import DEFAULT_PATH
from edgeagent.config_remains import remains

pytestmark = pytest.mark.requirement("H4")

USUAL: Final = "/run/edgeagent/admin.sock"


def told(path: Path, **environment: str) -> str | None:
    """The socket that is left."""
    left = remains(path, environment)
    return None if left is None else str(left.admin_socket)


@pytest.mark.parametrize(
    ("text", "socket"),
    [
        pytest.param('[hub]\nid = 7\nrun_dir = "/run/a"\n', "/run/a/admin.sock", id="another mistake"),
        pytest.param("[hub]\nid = 7\n", USUAL, id="not given"),
        pytest.param("[hub]\nrun_dir = 5\n", None, id="is itself the mistake"),
        pytest.param('[hub]\nrun_dir = "run"\n', None, id="is no whole path"),
        pytest.param("[broker]\nport = 1\n", None, id="says of no hub"),
        pytest.param("hub = 5\n", None, id="hub is no section"),
        pytest.param("[ hub ]\nid = \n run_dir='/run/b' # here\n", "/run/b/admin.sock", id="no TOML before"),
        pytest.param('[hub]\nrun_dir = "/run/c"\n[cloud\n', "/run/c/admin.sock", id="no TOML behind"),
        pytest.param('[hub]\nid = \n[log]\nrun_dir = "/run/d"\n', None, id="in another section"),
        pytest.param('[hub]\nid = \nrun_dir = "/run/e\n', None, id="the line itself is none"),
        pytest.param("[hub]\nid = \n", None, id="no TOML, not given"),
        pytest.param("a = " + "[" * 5000, None, id="too deep"),
        pytest.param("\x00" * 4096, None, id="zeros"),
        pytest.param("", None, id="empty"),
    ],
)
def test_a_file_of_another_place_leads_where_it_says_and_nowhere_else(
    tmp_path: Path, text: str, socket: str | None
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)

    assert told(file) == socket
    assert told(file, EDGEAGENT_HUB_RUN_DIR="/run/z") == "/run/z/admin.sock"


def test_a_file_that_anybody_may_change_is_not_believed(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[hub]\nrun_dir = "/tmp/theirs"\n')
    file.chmod(0o666)

    assert told(file) is None


def test_without_the_usual_file_the_usual_place_is_meant_and_without_another_none(tmp_path: Path) -> None:
    assert told(DEFAULT_PATH) == USUAL
    assert told(tmp_path / "none.toml") is None
    assert told(tmp_path) is None
