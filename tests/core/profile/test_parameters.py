"""Parameters: what a value may be, and that none can leave its place in a topic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.core.profile.compile import CompiledDevice
from edgeagent.errors import MalformedError
from edgeagent.ids import topic_filter
from tests.core.profile.building import made, thing

pytestmark = pytest.mark.requirement("V5")

PROFILE = thing("""
[parameter.prefix]
type = "prefix"
default = "home/{topic}"

[parameter.item]
type = "topic"
optional = true

[parameter.number_of]
type = "integer"
minimum = 1
maximum = 9
default = 1

[parameter.relays]
type = "integers"
default = [1]

[parameter.mac]
type = "mac"
optional = true

[parameter.kind]
type = "choice"
choices = ["a", "b"]
default = "a"

[parameter.word]
type = "text"
default = "ON"

[parameter.fast]
type = "boolean"
default = false

[[channel]]
kind = "relay"
ids = "relays"

[reading.one]
kind = "text"
from = [{ topic = "{prefix}/{topic}/x-{kind}{number_of}" }]

[reading.two]
kind = "text"
from = [{ topic = "{prefix}/{item}/{mac}" }]
""")


def topics(device: CompiledDevice) -> list[str]:
    """The topics that a device listens on."""
    return sorted(each.filter for each in device.subscriptions)


def test_what_is_not_given_takes_its_default_which_may_mention_others() -> None:
    device = made(PROFILE, "dev-1")

    assert topics(device) == ["home/dev-1/dev-1/x-a1"]
    assert device.parameters["prefix"] == "home/dev-1"


def test_what_mentions_an_optional_parameter_without_a_value_is_left_out() -> None:
    device = made(PROFILE, "dev-1", item="a/b", mac="aa:bb:cc:dd:ee:ff")

    assert topics(device) == ["home/dev-1/a/b/AABBCCDDEEFF", "home/dev-1/dev-1/x-a1"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("topic", "a/b"),
        ("topic", "+"),
        ("topic", "#"),
        ("topic", ""),
        ("topic", "a\0b"),
        ("topic", "a\nb"),
        ("topic", "$SYS"),
        ("topic", "\ud800"),
        ("topic", 7),
        ("prefix", "a/#"),
        ("prefix", "a/"),
        ("prefix", "x" * 600),
        ("item", "a/+/b"),
        ("number_of", 10),
        ("number_of", 0),
        ("number_of", True),
        ("number_of", 1.0),
        ("number_of", "1"),
        ("relays", 1),
        ("relays", [1, 1]),
        ("relays", [1, "2"]),
        ("relays", list(range(40))),
        ("relays", [-1]),
        ("mac", "AABBCCDDEE"),
        ("mac", "AABBCCDDEEGG"),
        ("kind", "c"),
        ("kind", 1),
        ("word", ""),
        ("word", "a\x1bb"),
        ("word", "x" * 200),
        ("fast", 1),
        ("unknown", "x"),
        ("device", "x"),
        ("reply", "x"),
    ],
)
def test_a_value_that_is_not_of_its_type_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(MalformedError, match=name):
        made(PROFILE, "dev-1", **{name: value})


def test_a_parameter_without_value_and_default_is_missed_by_name() -> None:
    with pytest.raises(MalformedError, match="'topic' is missing"):
        made(thing(""), "dev-1", topic=None)


def test_two_words_that_are_the_same_are_refused_since_they_would_mean_both() -> None:
    profile = thing("""
[parameter.on_word]
type = "text"

[reading.power]
kind = "boolean"
words = { true = "{on_word}", false = "OFF" }
from = [{ topic = "{topic}" }]
""")

    made(profile, on_word="ON")
    with pytest.raises(MalformedError, match="stands for two values"):
        made(profile, on_word="OFF")


def test_topics_grow_no_longer_than_a_topic_may_be() -> None:
    with pytest.raises(MalformedError):
        made(PROFILE, "dev-1", prefix="p" * 400, item="i" * 400, mac="aabbccddeeff")


texts = st.text(st.sampled_from("ab/+#$\0\n {}'\"") | st.characters(), max_size=12)


@given(texts, texts, texts, st.integers(), st.text(max_size=20))
def test_no_value_adds_a_level_or_a_wildcard(
    segment: str, prefix: str, item: str, number: int, mac: str
) -> None:
    """Whoever names a parameter may fill its place, and no more than that."""
    given_values = {"topic": segment, "prefix": prefix, "item": item, "number_of": number, "mac": mac}
    try:
        device = made(PROFILE, "dev-1", **given_values)
    except MalformedError:
        return

    one, two = (f"{prefix}/{segment}/x-a{number}", f"{prefix}/{item}/{device.parameters['mac']}")
    assert topics(device) == sorted([one, two])
    for each in topics(device):
        assert "+" not in each
        assert "#" not in each
        assert topic_filter(each) == each
    assert one.count("/") == prefix.count("/") + 2
    assert "/" not in segment
