"""A venue's time zone: known without the system's database, and refused with a word where it is none."""

import zoneinfo
from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from edgeagent.contracts.rollout import FirmwareRule

pytestmark = pytest.mark.requirement("F5")


@pytest.fixture
def small_system() -> Iterator[None]:
    """A system that came without the database of zones."""
    zoneinfo.reset_tzpath(to=[])
    zoneinfo.ZoneInfo.clear_cache()
    yield
    zoneinfo.reset_tzpath()
    zoneinfo.ZoneInfo.clear_cache()


@pytest.mark.usefixtures("small_system")
@pytest.mark.parametrize("zone", ["Pacific/Chatham", "Europe/Berlin", "UTC"])
def test_zones_are_known_where_the_system_knows_none(zone: str) -> None:
    assert FirmwareRule(zone=zone).zone == zone


@pytest.mark.parametrize("zone", ["Europe/Nowhere", "../../etc/passwd", "/etc/localtime", "a\x00b"])
def test_what_is_no_zone_is_refused_by_its_name(zone: str) -> None:
    with pytest.raises(ValidationError, match="no time zone is called"):
        FirmwareRule(zone=zone)
