"""Images: the same arguments, the same bytes; and what each family finds wrong with one."""

import hashlib
import json
import struct
from pathlib import Path

import pytest

from firmware_sim.command_line import main
from firmware_sim.fields import InputError
from firmware_sim.image import SECTOR, BadImageError, Damage, Family, Flaw, Label, Order
from firmware_sim.image_line import public_key
from firmware_sim.shelly import image as shelly
from firmware_sim.tasmota import image as tasmota
from firmware_sim.zigbee2mqtt import image as zigbee
from tests.firmware_sim.images import (
    APP,
    LAMP,
    PUBLIC,
    a_shelly_image,
    a_tasmota_image,
    a_zigbee_image,
)

pytestmark = pytest.mark.requirement("F6")


def test_the_same_order_makes_the_same_bytes_and_another_version_others() -> None:
    for make in (a_tasmota_image, a_shelly_image):
        assert make("1.2.3") == make("1.2.3")
        assert make("1.2.3") != make("1.2.4")
    assert a_zigbee_image(7) == a_zigbee_image(7)


def test_an_image_of_many_megabytes_is_made_and_read() -> None:
    image = a_shelly_image(size=32 * 2**20)

    assert len(image) > 32 * 2**20
    assert shelly.taken(image, PUBLIC, APP, "1").version == "1.7.2"


def test_a_tasmota_image_begins_as_the_real_one() -> None:
    image = a_tasmota_image(size=10_000)

    assert (image[0], len(image)) == (0xE9, 10_000)
    assert tasmota.whole(image, "esp8266").version == "14.2.0"


def test_a_zigbee_file_has_the_header_of_the_cluster_library() -> None:
    image = a_zigbee_image(0x01020304, hardware=3)

    magic, version, length, control = struct.unpack_from("<IHHH", image)
    maker, kind, file_version = struct.unpack_from("<HHI", image, 10)
    (total,) = struct.unpack_from("<I", image, 52)
    assert (magic, version, length, control) == (0x0BEEF11E, 0x0100, 60, 4)
    assert (maker, kind, file_version) == (LAMP.manufacturer, LAMP.image_type, 0x01020304)
    assert total == len(image)
    assert struct.unpack_from("<HH", image, 56) == (3, 3)
    assert zigbee.whole(image, LAMP, 3).version == str(0x01020304)


@pytest.mark.parametrize("damage", [Damage.MAGIC, Damage.CHECKSUM, Damage.TRUNCATED])
def test_no_boot_takes_a_damaged_image(damage: Damage) -> None:
    with pytest.raises(BadImageError):
        tasmota.whole(a_tasmota_image(damage=damage), "esp8266")
    with pytest.raises(BadImageError):
        shelly.whole(a_shelly_image(damage=damage))
    with pytest.raises(BadImageError):
        zigbee.whole(a_zigbee_image(damage=damage), LAMP, 1)


def test_a_running_tasmota_does_not_see_a_wrong_bit_and_a_shelly_does_not_boot_by_signature() -> None:
    assert tasmota.taken(a_tasmota_image(damage=Damage.CHECKSUM)).version == "14.2.0"
    stranger = a_shelly_image(damage=Damage.SIGNATURE)
    assert shelly.whole(stranger).version == "1.7.2"
    with pytest.raises(BadImageError, match="Signature"):
        shelly.taken(stranger, PUBLIC, APP, "1")


@pytest.mark.parametrize("cut", [0, 1, 3, 11, 12, 59, 100, 267, 271, 4096])
def test_any_beginning_of_an_image_is_refused_and_breaks_nothing(cut: int) -> None:
    with pytest.raises(BadImageError):
        tasmota.taken(a_tasmota_image()[:cut])
    with pytest.raises(BadImageError):
        shelly.taken(a_shelly_image()[:cut], PUBLIC, APP, "1")
    with pytest.raises(BadImageError):
        zigbee.whole(a_zigbee_image()[:cut], LAMP, 1)


def test_a_label_that_is_too_long_is_refused() -> None:
    label = Label(family=Family.TASMOTA, model="x" * 300, hardware="1", version="1.0")

    with pytest.raises(InputError, match="label"):
        tasmota.made(Order(label=label))


# The command line.


def made(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    """What it tells of the image that it has made."""
    assert main(["image", *arguments]) == 0
    told = json.loads(capsys.readouterr().out)["image"]
    assert isinstance(told, dict)
    return told


def test_an_image_is_made_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "t.bin"

    told = made(capsys, "--family", "tasmota", "--version", "14.2.0", "--size", "100000", str(out))

    raw = out.read_bytes()
    assert told["sha256"] == hashlib.sha256(raw).hexdigest()
    assert (told["bytes"], len(raw)) == (100_000, 100_000)
    assert tasmota.whole(raw, "esp8266") == Label(
        family=Family.TASMOTA, model="tasmota-plug", hardware="esp8266", version="14.2.0"
    )


def test_a_shellys_maker_is_made_once_and_signs_all_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one.fw", "two.fw"):
        made(capsys, "--family", "shelly", "--version", "1.7.2", str(tmp_path / name))

    key = public_key(tmp_path / "maker.pub")
    assert (tmp_path / "one.fw").read_bytes() == (tmp_path / "two.fw").read_bytes()
    assert shelly.taken((tmp_path / "one.fw").read_bytes(), key, APP, "1").version == "1.7.2"
    assert (tmp_path / "maker.key").stat().st_mode & 0o777 == 0o600


def test_a_broken_program_and_a_minimal_build_are_told_by_the_label(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "t.bin"

    made(capsys, "--family", "tasmota", "--version", "1.0", "--minimal", "--broken", "crash", str(out))

    label = tasmota.taken(out.read_bytes())
    assert (label.minimal, label.flaw) == (True, Flaw.CRASH)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--family", "zigbee", "--version", "1.2"], id="no whole number"),
        pytest.param(["--family", "zigbee", "--version", str(2**32)], id="too high"),
        pytest.param(["--family", "zigbee", "--version", "1", "--model", "fridge"], id="no model"),
        pytest.param(["--family", "shelly", "--version", "1", "--minimal"], id="no such build"),
        pytest.param(["--family", "tasmota", "--version", "1", "--broken", "signature"], id="no signature"),
        pytest.param(["--family", "tasmota", "--version", "1", "--size", "0"], id="no size"),
        pytest.param(["--family", "tasmota", "--version", "x" * 300], id="too long"),
    ],
)
def test_wrong_arguments_make_no_image(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(["image", *arguments, str(tmp_path / "out")]) == 2
    assert "firmware_sim image:" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_image_that_cannot_be_written_is_a_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "nowhere" / "t.bin"

    assert main(["image", "--family", "tasmota", "--version", "1.0", str(out)]) == 1
    assert "nowhere" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "zz", "00" * 31])
def test_what_is_no_key_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "maker.pub"
    path.write_text(content)

    with pytest.raises(InputError):
        public_key(path)
    with pytest.raises(InputError):
        public_key(tmp_path / "none")


def test_an_image_has_at_least_the_size_that_was_asked_for() -> None:
    assert len(a_tasmota_image(size=1)) > 256
    assert len(a_shelly_image(size=3 * SECTOR)) > 3 * SECTOR
