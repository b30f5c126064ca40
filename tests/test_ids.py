"""Identifiers: what passes is safe wherever it is put."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent import ids
from edgeagent.errors import MalformedError

pytestmark = pytest.mark.requirement("V5")

Maker = Callable[[str], str]

NAMES: list[Maker] = [ids.hub_id, ids.device_id, ids.command_id, ids.epoch, ids.key_id, ids.digest]
EVERYWHERE: list[Maker] = [*NAMES, ids.reading_name]

# What separates, matches, quotes, escapes or ends something in a topic, path, SQL, shell, URL or page.
ACTIVE = set("/\\+#*?$%&;:,<>\"'`|!~()[]{}=@^ \t\r\n\0")

anything = st.text() | st.text(st.sampled_from("aA0._-/:@+#$ \n\0\x1b\x7fé\u202e\ud800"), max_size=90)
ids_of_devices = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)


@pytest.mark.parametrize("make", EVERYWHERE, ids=lambda make: make.__name__)
@given(text=anything)
def test_an_identifier_that_passes_does_nothing_anywhere(make: Maker, text: str) -> None:
    try:
        made = make(text)
    except MalformedError:
        return

    assert made == text
    assert made.isascii()
    assert made.isprintable()
    assert not ACTIVE & set(made)
    assert 0 < len(made) <= 65
    assert made not in {".", ".."}


@given(text=anything)
def test_an_operation_that_passes_is_one_quiet_line(text: str) -> None:
    try:
        made = ids.operation(text)
    except MalformedError:
        return

    assert made == text
    assert made.isascii()
    assert made.isprintable()
    assert not (ACTIVE - set("/:@")) & set(made)
    assert len(made) <= 128


@given(text=ids_of_devices)
def test_every_word_of_up_to_64_characters_names_a_device(text: str) -> None:
    assert ids.device_id(text) == text


@pytest.mark.parametrize("make", EVERYWHERE, ids=lambda make: make.__name__)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("0123456789abcdef0123\n", id="a line end after it"),
        pytest.param("a" * 65, id="too long"),
        pytest.param("a/b", id="a separator"),
        pytest.param("../a", id="a way up"),
        pytest.param("a+", id="a wildcard"),
        pytest.param("a\0", id="NUL"),
        pytest.param("\u0661\u0662", id="digits of another script"),
        pytest.param("\x1b[2J", id="what clears a terminal"),
    ],
)
def test_what_is_no_identifier_is_refused(make: Maker, text: str) -> None:
    with pytest.raises(MalformedError):
        make(text)


def test_a_refusal_quotes_what_it_refuses_and_cuts_it() -> None:
    with pytest.raises(MalformedError) as refusal:
        ids.device_id("\x1b]0;" + "x" * 10_000)

    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 120


@pytest.mark.requirement("T8")
@given(milliseconds=st.integers(0, 2**60), chance=st.integers(0, 2**40))
def test_a_new_epoch_is_an_epoch_whatever_clock_and_chance_say(milliseconds: int, chance: int) -> None:
    made = ids.new_epoch(milliseconds, chance)

    assert ids.epoch(made) == made


@pytest.mark.requirement("T8")
def test_epochs_sort_by_the_time_of_their_making() -> None:
    earlier, later = ids.new_epoch(1_000, 0xFFFFFFFF), ids.new_epoch(1_001, 0)

    assert earlier < later


@pytest.mark.requirement("M11")
@given(text=st.text())
def test_a_label_that_passes_is_one_visible_line(text: str) -> None:
    try:
        made = ids.label(text)
    except MalformedError:
        return

    assert made.isprintable()
    assert made == made.strip() != ""
    assert len(made) <= ids.LABEL_CHARACTERS
    assert made.encode().decode() == made


@pytest.mark.requirement("M11")
@pytest.mark.parametrize("text", ["Küche", "Fernseher (links) <3", "客厅", "Bar & Lounge", "🙂" * 64])
def test_people_may_call_a_device_what_they_like(text: str) -> None:
    assert ids.label(text) == text


@pytest.mark.parametrize(
    "text",
    ["", " ", " a", "a ", "a\nb", "a\u202eb", "a\u200bb", "\x1b[31m", "x" * 65, "\ud83d"],
    ids=ascii,
)
def test_a_label_that_a_terminal_would_act_on_is_refused(text: str) -> None:
    with pytest.raises(MalformedError):
        ids.label(text)


@given(text=anything)
def test_a_topic_that_passes_reaches_one_topic_only(text: str) -> None:
    try:
        made = ids.topic(text)
    except MalformedError:
        return

    assert not set("+#\0") & set(made)
    assert not made.startswith("$")
    assert len(made.encode()) <= ids.TOPIC_BYTES
    assert made.isprintable()


@given(text=anything)
def test_a_level_of_a_topic_that_passes_stays_one_level(text: str) -> None:
    try:
        level = ids.topic_segment(text)
    except MalformedError:
        return

    assert ids.topic(f"cmnd/{level}/POWER").split("/") == ["cmnd", level, "POWER"]


@pytest.mark.parametrize("text", ["#", "+", "a/#", "+/b/+/#", "a//b", "/", "tele/+/SENSOR"])
def test_a_filter_of_the_standard_passes(text: str) -> None:
    assert ids.topic_filter(text) == text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a/#/b", id="a hash that is not last"),
        pytest.param("a#", id="a hash beside text"),
        pytest.param("a/b+", id="a plus beside text"),
        pytest.param("$SYS/#", id="the broker's own"),
        pytest.param("$share/group/a", id="a shared subscription"),
        pytest.param("", id="nothing"),
        pytest.param("a\0b", id="NUL"),
        pytest.param("a\tb", id="a control character"),
        pytest.param("é" * 257, id="more bytes than allowed"),
        pytest.param("a\ud800", id="half a surrogate pair"),
    ],
)
def test_a_filter_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(MalformedError):
        ids.topic_filter(text)


@pytest.mark.parametrize("text", ["a/b", "+", "#", "a+", "", "\n", "$SYS"])
def test_a_level_that_would_change_its_topic_is_refused(text: str) -> None:
    with pytest.raises(MalformedError):
        ids.topic_segment(text)
