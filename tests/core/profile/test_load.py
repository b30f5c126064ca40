"""What is no profile is refused, with the place and the reason."""

import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.profile import PROFILE_BYTES, DeviceProfile, ParameterType
from edgeagent.core.profile.compile import compile_device
from edgeagent.core.profile.load import load
from edgeagent.core.profile.match import Matcher
from edgeagent.errors import MalformedError
from edgeagent.ids import device_id
from edgeagent.profiles.shipped import shipped_profiles
from tests.core.profile.building import GATEWAY, HEAD, SHIPPED

pytestmark = pytest.mark.requirement("M1")

POWER = """
[reading.power]
kind = "boolean"
words = { true = "ON", false = "OFF" }
from = [{ topic = "stat/{topic}/POWER" }]
"""
SWITCHES = """
[parameter.relays]
type = "integers"
default = [1]

[[channel]]
kind = "relay"
ids = "relays"
"""
COMMAND = (
    POWER
    + """
[[command.power]]
effect = "absolute"
arguments.on = { words = { true = "ON", false = "OFF" } }
publish = { topic = "cmnd/{topic}/POWER", text = "{on}" }
confirm = [{ kind = "echo" }]
within = "4s"
"""
)


def refused(text: str | bytes) -> str:
    """The words of the refusal of a file."""
    with pytest.raises(MalformedError) as why:
        load(text if isinstance(text, bytes) else text.encode())
    return str(why.value)


@pytest.mark.parametrize("text", shipped_profiles(), ids=lambda text: str(tomllib.loads(text.decode())["id"]))
def test_a_shipped_profile_is_one(text: bytes) -> None:
    profile = load(text)

    assert profile.limits
    assert len(text) < PROFILE_BYTES // 2


def test_the_shipped_profiles_are_those_in_the_folder() -> None:
    ids = [load(text).id for text in shipped_profiles()]

    assert ids == sorted(path.stem for path in Path(SHIPPED).glob("*.toml"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(b"\xff", "not UTF-8", id="not UTF-8"),
        pytest.param(b"format = ", "not TOML", id="not TOML"),
        pytest.param(b"a = 1\na = 2", "not TOML", id="a key twice"),
        pytest.param(b"x = [\n" + b"[\n" * 20_000, "not TOML", id="brackets without end"),
        pytest.param(b"x = " + b"9" * 5_000, "a line of more than 1000 bytes", id="a number without end"),
        pytest.param(b".".join([b"a"] * 20_000) + b" = 1", "a line of more", id="a dotted key without end"),
        pytest.param(b".".join([b"a"] * 400) + b" = 1", "nested deeper", id="a dotted key"),
        pytest.param(b"#\n" * PROFILE_BYTES, "bytes, of which", id="too many bytes"),
        pytest.param(b"", "Field required", id="nothing"),
        pytest.param(b"x = 2026-01-02", "no", id="a date"),
        pytest.param(b"x = nan", "no", id="no number"),
    ],
)
def test_what_is_no_file_of_this_format_is_refused(text: bytes, words: str) -> None:
    assert words in refused(text)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("surprise = 1", "surprise: Extra inputs"),
        ("[reading.power]\nkind='boolean'\nform=[]", "reading.power.from: Field required"),
        (POWER.replace("boolean", "bool"), "reading.power.kind: Input should be"),
        (POWER.replace("[reading.power]", "[reading.Power]"), "reading.Power"),
        (POWER.replace("power", "availability"), "reading.availability: is told under [availability]"),
        (
            POWER.replace("{topic}", "{tropic}"),
            "reading.power.from[0].topic: nothing is called {tropic} here",
        ),
        (POWER.replace("{topic}", "{Topic}"), "reading.power.from[0].topic: a brace that names nothing"),
        (POWER.replace("{topic}", "#"), "reading.power.from[0].topic: a topic holds no wildcard"),
        (POWER.replace("stat/", "$SYS/"), "reading.power.from[0].topic: not a topic"),
        (
            POWER.replace('POWER" }', 'POWER", pick = "POWER" }'),
            "reading.power.from[0].pick: a path begins with $",
        ),
        (POWER.replace('POWER" }', 'POWER", pick = "$.a[*]" }'), "reading.power.from[0].pick: not a path"),
        (POWER.replace('POWER" }', 'POWER", pick = "$.*.*" }'), "at most 8 steps and one *"),
        (POWER.replace('POWER" }', 'POWER", pick = "$.*.a.b" }'), "after a * stands one key at most"),
        (
            POWER.replace('POWER" }', 'POWER", when = ["$.a = 1"] }'),
            "reading.power.from[0].when[0]: not a predicate",
        ),
        (POWER.replace('POWER" }', 'POWER", when = ["$.a == {b}"] }'), "nothing is called {b} here"),
        (POWER.replace('POWER" }', 'POWER", when = ["$.a =~ \'x\'"] }'), "not a predicate"),
        (POWER.replace('POWER" }', 'POWER", each = "relay" }'), "from[0].each: no such kind of channel"),
        (POWER.replace('POWER" }', 'POWER", message = "m" }'), "exactly one of topic and message"),
        (POWER.replace('topic = "stat/{topic}/POWER"', 'message = "m", pick = "$.a"'), "no such message"),
        (POWER.replace('POWER" }', 'POWER", scale = 2.0 }'), "are of numeric readings"),
        (POWER.replace('POWER" }', 'POWER", unit = "W" }'), "are of numeric readings"),
        (POWER.replace('POWER" }', 'POWER", const = 1 }'), "the constant is no boolean value"),
        (POWER.replace('POWER" }', 'POWER", only_if = { light = [1] } }'), "no parameter 'light'"),
        (POWER.replace("true =", "yes ="), "reading.power.words: 'yes' is no boolean value"),
        (POWER.replace('"ON"', '"{on}"'), "{on} is no parameter that holds a word"),
        (POWER + "range = [0, 1]", "reading.power.range"),
        (POWER + "state = true\nevent = true", "a happening is no state"),
        (POWER + 'min_interval = "2h"', "its intervals contradict each other"),
        ("[reading.t]\nkind='number'\nunit='°C'\nfrom=[{topic='a',unit='W'}]", "'W' cannot become '°C'"),
        ("[reading.t]\nkind='number'\nfrom=[{topic='a',scale=0.0}]", "a scale of 0 leaves nothing"),
        ("[parameter.number]\ntype='integer'", "parameter.number: the name has a meaning of its own"),
        ("[parameter.a]\ntype='choice'", "choices belong to a choice"),
        ("[parameter.a]\ntype='choice'\nchoices=['a/b']", "not one level of a topic"),
        ("[parameter.a]\ntype='segment'\ndefault='a/b'", "parameter.a.default: not one level of a topic"),
        ("[parameter.a]\ntype='prefix'\ndefault='x/{b}'", "parameter.a.default: nothing is called {b} here"),
        ("[parameter.a]\ntype='integer'\nminimum=2\nmaximum=1", "its minimum is above its maximum"),
        (
            "[parameter.t]\ntype='text'\n[reading.r]\nkind='text'\nfrom=[{topic='a/{t}'}]",
            "stands in no topic",
        ),
        ("[parameter.p]\ntype='prefix'\n[reading.r]\nkind='text'\nfrom=[{topic='a{p}'}]", "whole levels"),
        ("[[channel]]\nkind='relay'\nids='topic'", "channel[0].ids: not a parameter of type integers"),
        (SWITCHES + "[[channel]]\nkind='relay'\nids='relays'", "channel: a kind stands twice"),
        ("[[match]]\ntopic='a/x{mac}'\ndevice='{mac}'", "match[0].topic: a name captures a whole level"),
        ("[[match]]\ntopic='a/{mac}'\ndevice='{dev}'", "match[0].device: the topic does not capture {dev}"),
        ("[[match]]\ntopic='a/{m}'\ndevice='{m}'\nbind={x='$.a'}", "match[0].bind.x: no such parameter"),
        ("[[match]]\ntopic='a/b'\ndevice='$.id'\nremoved_by='empty'", "an empty payload names no device"),
        ("[[match]]\ntopic='a/{m}'\neach='$.*'\ndevice='{m}'", "match[0].each: not a plain path"),
        (
            "[[match]]\ntopic='a/{m}'\neach='$'\ndevice='{m}'\nremoved_by='empty'",
            "match[0].removed_by: the list says who is gone",
        ),
        ("[[match]]\ntopic='a'\ndevice='$.id'\nfollow=['topic']", "match[0].follow: 'topic' is not bound"),
        (
            "[[match]]\ntopic='a'\ndevice='$.id'\nbind={topic={take='$.a',collect='b'}}",
            "bind.topic: what is collected is a list: say numbers or first",
        ),
        (
            "[[match]]\ntopic='a'\ndevice='$.id'\nbind={topic={take='$.a',holds=[\"$.b exists\"]}}",
            "bind.topic: makes a truth",
        ),
        (
            "[[match]]\ntopic='a'\ndevice='$.id'\nbind={topic={take='$.a',collect='b',numbers={x=1}}}",
            "bind.topic: makes a list of whole numbers",
        ),
        (
            "[[match]]\ntopic='a/{m}'\ndevice='{m}'\nbind={topic={take='$.a',holds=[\"$.b == {m}\"]}}",
            "bind.topic: a name in holds",
        ),
        (
            "[[match]]\ntopic='a'\ndevice='$.id'\nbind={topic={take='$.a',first={x='y'},numbers={x=1}}}",
            "at most one of positions, numbered, numbers, first and among",
        ),
    ],
)
def test_a_mistake_is_named_by_its_place(body: str, words: str) -> None:
    assert words in refused(HEAD + body)


def test_a_command_topic_is_a_filter() -> None:
    assert "command_topics[0]: # stands last" in refused("command_topics = ['cmnd/#/x']" + HEAD)
    assert load(("command_topics = ['cmnd/{topic}/#', '+/cmnd']" + HEAD).encode()).command_topics


@pytest.mark.requirement("V1", "I3")
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"absolute"', '"one-shot"', "command.power[0].effect: the catalogue says absolute"),
        ('text = "{on}"', 'text = "ON"', "command.power[0].publish: the argument 'on' is not sent"),
        ('text = "{on}"', 'text = "{level}"', "nothing is called {level} here"),
        ('text = "{on}"', "json = { a = 1 }", "the argument 'on' is not sent"),
        ('text = "{on}"', 'text = "{on}", empty = true', "exactly one of text, json and empty"),
        ("arguments.on", "arguments.level", "arguments.level: the catalogue's action has no such argument"),
        (', false = "OFF" } }\npublish', " } }\npublish", "words for true and for false"),
        ("arguments.on = { words", "arguments.on = { scale = 2.0, words", "are of numbers"),
        ("cmnd/{topic}/POWER", "cmnd/all/POWER", "the topic is not the device's own"),
        ('"echo" }', '"echo", reading = "volume" }', "confirm[0]: no reading 'volume'"),
        ('"echo" }', '"echo", tolerance = 1.0 }', "a truth has no tolerance"),
        ('"echo" }', '"cycle" }', "the device does not tell when it goes and comes"),
        ('"echo" }', '"hope" }', "command.power.0.confirm.0"),
        ('kind = "echo" }', 'kind = "reply", topic = "all/answers" }', "believed on its own topic only"),
        ('kind = "echo" }', 'kind = "reply", topic = "cmnd/{topic}/POWER" }', "come back as the answer"),
        (
            'kind = "echo" }',
            'kind = "reply", topic = "{reply}/rpc", correlate = "$.id" }',
            "the message carries no {number}",
        ),
        ('within = "4s"', "within = 4", "command.power.0.within"),
        ('within = "4s"', 'within = "4s"\nsettles = "4s"', "settles: longer than an answer may take"),
        ('within = "4s"', 'within = "4s"\nfail = [{ topic = "stat/{topic}/R" }]', "told from an answer"),
        ('within = "4s"', 'within = "4s"\neach = "relay"', "no such kind of channel"),
        ('within = "4s"', 'within = "4s"\nrequire = [{ reading = "lock" }]', "no reading 'lock'"),
        ("[[command.power]]", "[[command.explode]]", "command.explode"),
        ("[[command.power]]", "[[command.identify]]", "the catalogue says one-shot"),
    ],
)
def test_a_command_that_promises_what_the_catalogue_does_not_have_is_refused(
    old: str, new: str, words: str
) -> None:
    assert old in COMMAND

    assert words in refused(HEAD + COMMAND.replace(old, new))


@pytest.mark.requirement("M2")
@pytest.mark.parametrize(
    ("topic", "when", "fits"),
    [
        ("{base}/log", "$.message contains {topic}", True),
        ("{base}/log", "$.level == 'error'", False),
        ("{base}/log", "$.message contains {base}", False),
        ("everybody/log", "$.message contains {topic}", False),
        ("{base}/{topic}/log", "$.level == 'error'", True),
    ],
)
def test_a_refusal_from_what_devices_share_must_name_the_device(topic: str, when: str, *, fits: bool) -> None:
    shared = "[parameter.base]\ntype = 'prefix'\ndefault = 'b'\n[shared.bridge]\nby = 'base'\n"
    text = HEAD + COMMAND + f'fail = [{{ topic = "{topic}", when = ["{when}"] }}]\n' + shared

    if fits:
        assert load(text.encode()).commands
    else:
        assert "a refusal is believed on its own topic only" in refused(text)


@pytest.mark.requirement("V1")
def test_a_range_wider_than_the_catalogue_is_refused() -> None:
    level = """
[reading.volume]
kind = "integer"
from = [{ topic = "{topic}/volume" }]

[[command.volume]]
effect = "absolute"
arguments.level = { maximum = 127 }
publish = { topic = "{topic}/set", text = "{level}" }
confirm = [{ kind = "echo" }]
within = "4s"
"""

    assert "wider than the catalogue allows" in refused(HEAD + level)
    load((HEAD + level.replace("127", "80")).encode())


def test_a_refresh_without_a_reply_and_an_echo_without_a_name_are_refused() -> None:
    refresh = """
[reading.power]
kind = "boolean"
from = [{ topic = "{topic}/state", pick = "$.*.on" }]

[[command.refresh]]
effect = "absolute"
publish = { topic = "{topic}/get", empty = true }
confirm = [{ kind = "echo", reading = "power", changed = true }]
within = "4s"
"""

    words = refused(HEAD + refresh)

    assert "command.refresh[0].confirm: what is read afresh comes in a reply" in words
    assert "command.refresh[0].confirm[0]: power is named by the device" in words


@pytest.mark.requirement("V1")
def test_names_of_inputs_must_be_listed() -> None:
    source = """
[reading.input]
kind = "text"
from = [{ topic = "{topic}/input" }]

[[command.input]]
effect = "absolute"
publish = { topic = "{topic}/set", text = "{name}" }
confirm = [{ kind = "echo" }]
within = "4s"
"""

    assert "the values of 'name' must be listed" in refused(HEAD + source)
    load((HEAD + source + 'arguments.name = { choices = ["HDMI 1"] }').encode())


def test_all_mistakes_are_told_at_once() -> None:
    words = refused(
        HEAD
        + POWER.replace("{topic}", "{tropic}")
        + "[parameter.spare]\ntype = 'text'\n"
        + POWER.replace("reading.power", "reading.other").replace("true =", "yes =")
    )

    assert "reading.power.from[0].topic" in words
    assert "reading.other.words" in words


@pytest.mark.requirement("M6")
@given(st.binary(max_size=400))
def test_no_bytes_do_more_than_be_refused(text: bytes) -> None:
    with pytest.raises(MalformedError):
        load(text)


def works(profile: DeviceProfile) -> None:
    """A profile that was loaded can be compiled, read with and asked; only its parameters can be wrong."""
    values: dict[str, object] = {"topic": "t"} if "topic" in profile.parameters else {}
    for name, parameter in profile.parameters.items():
        if parameter.type is ParameterType.INTEGERS:
            values[name] = [1, 2]
    device = compile_device(profile, device_id("dev-1"), values, gateway=GATEWAY)
    for each in device.subscriptions:
        device.decode(each.filter, b"{}", retained=False)
        device.decode(each.filter, b"ON", retained=True)
    for reading in device.readings:
        device.spec(reading)
        device.read_back(reading, number=1)
    device.probe(number=1)
    with suppress(MalformedError):
        device.plan(ActionName.POWER, {"on": True, "channel": 1}, number=1)
    for action in (ActionName.REBOOT, ActionName.REFRESH, ActionName.IDENTIFY):
        with suppress(MalformedError):
            device.plan(action, {}, number=1)
    Matcher([profile]).match("tasmota/discovery/AABBCCDDEEFF/config", b'{"ver":1}')


lines = st.sampled_from([line for text in shipped_profiles() for line in text.decode().splitlines() if line])


@pytest.mark.requirement("M6")
@settings(max_examples=40)
@given(st.data())
def test_a_shipped_profile_with_lines_missing_doubled_or_out_of_place_is_one_or_is_refused(
    data: st.DataObject,
) -> None:
    text = data.draw(st.sampled_from(shipped_profiles())).decode().splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(text) - 1))
        text[place : place + data.draw(st.integers(0, 2))] = data.draw(st.lists(lines, max_size=2))

    with suppress(MalformedError):
        works(load("\n".join(text).encode()))


@pytest.mark.requirement("M6")
@settings(max_examples=40)
@given(
    st.text(st.characters(codec="utf-8", exclude_characters='"\\\n\r'), max_size=40),
    st.sampled_from(
        ["$.POWER{suffix}", "$.Dimmer", "$.UptimeSec exists", "{cmnd}/State", "{tele}/LWT", "ON"]
    ),
)
def test_a_shipped_profile_with_any_text_in_place_of_another_is_one_or_is_refused(new: str, old: str) -> None:
    text = (SHIPPED / "tasmota.toml").read_text("utf-8")
    assert old in text

    with suppress(MalformedError):
        works(load(text.replace(old, new, 1).encode()))


@pytest.mark.requirement("V1", "V3")
def test_no_profile_sends_a_device_an_artifact() -> None:
    install = (
        '[[command.install]]\neffect = "one-shot"\nconfirm = [{ kind = "cycle" }]\nwithin = "4s"\n'
        'publish = { topic = "cmnd/{topic}/install", json = { file = "{artifact}", sum = "{digest}" } }\n'
    )

    assert "command.install[0]: an artifact is not sent in a message" in refused(HEAD + POWER + install)
