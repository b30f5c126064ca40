"""The broker's part of a set-up: it follows what is asked and configured, and can be made again."""

from pathlib import Path

import pytest

from edgeagent.contracts.reports.setup import Came
from edgeagent.setup.broker.wish import config_lines
from edgeagent.setup.broker_step import see_to_broker
from tests.support.own_broker import OwnBroker

pytestmark = pytest.mark.requirement("H5")


def guest(folder: Path) -> Path:
    """The configuration of a hub that is a guest."""
    config = folder / "config.toml"
    config.write_text(f'[hub]\nid = "venue-7"\nstate_dir = "{folder}"\n')
    return config


def test_as_a_guest_nothing_is_done(tmp_path: Path) -> None:
    for wished in ("guest", None):
        step = see_to_broker(guest(tmp_path), wished, is_dry=False)

        assert (step.came, "edgeagent broker check" in step.words) == (Came.KEPT, True)


def test_managed_it_is_shown_then_done_then_kept(tmp_path: Path) -> None:
    with OwnBroker(tmp_path / "etc", tmp_path / "state") as broker:
        config = broker.configure(tmp_path / "config.toml")
        before = broker.files()

        shown = see_to_broker(config, "managed", is_dry=True, service=broker)
        assert broker.files() == before
        done = see_to_broker(config, "managed", is_dry=False, service=broker)
        again = see_to_broker(config, None, is_dry=False, service=broker)
        back = see_to_broker(config, "guest", is_dry=False, service=broker)

    assert (shown.came, done.came, again.came, back.came) == (Came.WOULD, Came.DONE, Came.KEPT, Came.LEFT)
    assert f"+listener {broker.port} 127.0.0.1" in shown.words
    assert "take [broker.managed] out" in back.words
    assert broker.restarts == 1


def test_a_configuration_of_a_person_is_not_written_over_but_told_what_it_lacks(tmp_path: Path) -> None:
    config = guest(tmp_path)
    before = config.read_text()

    step = see_to_broker(config, "managed", is_dry=False)
    replaced = see_to_broker(config, "managed", is_dry=True, is_new=True)

    assert (replaced.came, "+listener 1884 127.0.0.1" in replaced.words) == (Came.WOULD, True)
    assert step.came is Came.LEFT
    assert config_lines() in step.words
    assert config.read_text() == before
