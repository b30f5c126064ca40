"""How far an update is, told by what real families say, message by message."""

import json
from collections.abc import Iterable
from datetime import timedelta
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.contracts.update import Overdue
from edgeagent.core.confirmation import Heard
from edgeagent.core.profile.compile import CompiledDevice
from edgeagent.core.updating import Course, UpdateStep, follow, overdue
from tests.core.profile.building import SHELLY, family, live, made, shelly, tasmota

pytestmark = pytest.mark.requirement("F4")

URL = "http://192.0.2.1:8070/f/0123456789abcdef"
EVENTS, REPLY = f"{SHELLY}/events/rpc", f"edgeagent/hub-1/{SHELLY}/rpc"
Line = tuple[str, str]


def step_of(device: CompiledDevice, name: str) -> UpdateStep:
    """One step of an update to 14.1.0."""
    plan = device.firmware(url=URL, version="14.1.0", number=7)
    return next(step for step in plan.steps if step.name == name)


def heard(device: CompiledDevice, name: str, lines: Iterable[Line], course: Course | None = None) -> Course:
    """How far a step is after these messages."""
    step = step_of(device, name)
    messages = [Heard(topic=topic, decoded=live(device, topic, payload)) for topic, payload in lines]
    return reduce(lambda known, message: follow(step, known, message), messages, course or Course())


def event(kind: str, **more: object) -> Line:
    """What a Shelly notifies of its update."""
    events = [{"component": "sys", "event": kind, "ts": 1.0, **more}]
    return EVENTS, json.dumps({"src": SHELLY, "method": "NotifyEvent", "params": {"events": events}})


# Tasmota.


@pytest.mark.parametrize("device", [tasmota(), tasmota(own_topics=True)], ids=["RESULT", "SetOption4"])
def test_a_tasmota_that_repeats_the_address_has_taken_it(device: CompiledDevice) -> None:
    topic = "stat/plug-a/OTAURL" if device.parameters["own_topics"] else "stat/plug-a/RESULT"

    course = heard(device, "address", [(topic, json.dumps({"OtaUrl": URL}))])

    assert course.is_over(step_of(device, "address"))
    assert course.denied is None


def test_a_tasmota_that_answers_with_another_address_has_not() -> None:
    course = heard(tasmota(), "address", [("stat/plug-a/RESULT", '{"OtaUrl":"http://old.example/t.bin"}')])

    assert course.denied is not None
    assert course.denied.words == "http://old.example/t.bin"


@pytest.mark.parametrize(
    "end",
    ['{"Upgrade":"Successful. Restarting"}', "Successful. Restarting"],
    ids=["JSON", "before version 8"],
)
def test_a_tasmota_that_says_success_is_waited_for_until_it_is_back(end: str) -> None:
    device = tasmota()
    said = [
        ("stat/plug-a/RESULT", json.dumps({"Upgrade": f"Version 13.4.0 from {URL}"})),
        ("stat/plug-a/UPGRADE", end),
    ]
    rebooted = [("tele/plug-a/LWT", "Offline"), ("tele/plug-a/LWT", "Online")]

    done, back = heard(device, "upgrade", said), heard(device, "upgrade", said + rebooted)

    assert (done.taken, done.done, done.is_over(step_of(device, "upgrade"))) == (True, True, False)
    assert (back.gone, back.back, back.is_over(step_of(device, "upgrade"))) == (True, True, True)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("stat/plug-a/RESULT", '{"Upgrade":"1 or >13.4.0 to upgrade"}'), "1 or >13.4.0 to upgrade"),
        (("stat/plug-a/UPGRADE", '{"Upgrade":"Failed HTTP error: 404"}'), "Failed HTTP error: 404"),
        (("stat/plug-a/UPGRADE", "Failed HTTP error: 404"), "Failed HTTP error: 404"),
        (("stat/plug-a/RESULT", '{"Command":"Unknown"}'), "Unknown"),
    ],
)
def test_a_tasmota_that_refuses_or_fails_has_denied(line: Line, words: str) -> None:
    course = heard(tasmota(), "upgrade", [line])

    assert course.denied is not None
    assert course.denied.words == words


def test_a_failure_told_in_broken_json_is_no_end_and_leaves_it_to_the_version() -> None:
    course = heard(tasmota(), "upgrade", [("stat/plug-a/UPGRADE", '{"Upgrade":"Failed "}"}')])

    assert course == Course()


# Shelly.


def test_a_shelly_tells_its_progress_and_success_before_it_reboots() -> None:
    device = shelly()
    lines = [
        (REPLY, json.dumps({"id": 7, "src": SHELLY, "result": None})),
        event("ota_begin", msg="Waiting for data"),
        event("ota_progress", msg="Got data", progress_percent=10),
        event("ota_progress", msg="Got data", progress_percent=60),
        event("ota_success", msg="Update applied, rebooting"),
    ]

    course = heard(device, "update", lines)

    assert (course.taken, course.percent, course.done) == (True, 60, True)
    assert not course.is_over(step_of(device, "update"))
    rebooted = [(f"{SHELLY}/online", "false"), (f"{SHELLY}/online", "true")]
    assert heard(device, "update", rebooted, course).is_over(step_of(device, "update"))


def test_an_error_that_a_shelly_tells_is_its_denial() -> None:
    course = heard(shelly(), "update", [event("ota_error", msg="Not enough space")])

    assert course.denied is not None
    assert course.denied.words == "Not enough space"


def test_the_answer_to_another_request_and_anothers_event_are_nothing() -> None:
    other = json.dumps({"id": 8, "src": SHELLY, "result": None})
    foreign = event("ota_success")[1].replace(SHELLY, "shellyplus1pm-000000000000")

    assert heard(shelly(), "update", [(REPLY, other), (EVENTS, foreign)]) == Course()


def test_progress_may_go_back_and_only_a_change_of_it_is_a_sign_of_life() -> None:
    course = heard(
        shelly(), "update", [event("ota_progress", progress_percent=part) for part in (40, 40, 5, 5)]
    )

    assert (course.percent, course.signs) == (5, 2)


@pytest.mark.parametrize("part", [-1, 101, "40", None, True, 1e300])
def test_progress_that_is_no_part_of_a_hundred_is_left_alone(part: object) -> None:
    course = heard(shelly(), "update", [event("ota_progress", progress_percent=part)])

    assert course == Course()


def test_a_refusal_after_success_changes_nothing() -> None:
    course = heard(shelly(), "update", [event("ota_success"), event("ota_error", msg="late")])

    assert course.denied is None


# Whoever it is.


def test_what_is_retained_our_own_or_from_before_proves_nothing() -> None:
    device, (topic, payload) = shelly(), event("ota_success")
    step, decoded = step_of(device, "update"), live(device, topic, payload)

    for message in (
        Heard(topic=topic, decoded=decoded, retained=True),
        Heard(topic=topic, decoded=decoded, own=True),
        Heard(topic=topic, decoded=decoded, after=False),
    ):
        assert follow(step, Course(), message) == Course()


def test_a_device_that_only_comes_online_has_not_been_away() -> None:
    assert not heard(shelly(), "update", [(f"{SHELLY}/online", "true")]).back


@pytest.mark.parametrize(
    ("course", "sent", "sign", "found"),
    [
        (Course(), 29, 29, None),
        (Course(), 31, 31, Overdue.UNANSWERED),
        (Course(taken=True), 20, 4, None),
        (Course(taken=True), 20, 6, Overdue.STALLED),
        (Course(taken=True), 31, 1, Overdue.LATE),
        (Course(taken=True, done=True), 40, 4, None),
        (Course(taken=True, done=True), 40, 6, Overdue.AWAY),
        (Course(taken=True, done=True, gone=True, back=True), 40, 40, None),
    ],
)
def test_silence_means_something_else_at_each_point(
    course: Course, sent: int, sign: int, found: Overdue | None
) -> None:
    silence = {"since_sent": timedelta(minutes=sent), "since_sign": timedelta(minutes=sign)}

    assert overdue(step_of(shelly(), "update"), course, **silence) is found


def test_what_is_only_taken_is_over_where_nothing_more_is_said() -> None:
    step = step_of(tasmota(), "address")

    assert overdue(step, Course(), since_sent=timedelta(seconds=11), since_sign=timedelta(seconds=11)) is (
        Overdue.UNANSWERED
    )
    assert Course(taken=True).is_over(step)


@given(st.lists(st.tuples(st.sampled_from([EVENTS, REPLY, f"{SHELLY}/online"]), st.binary(max_size=80))))
def test_any_bytes_leave_a_step_with_a_course(lines: list[tuple[str, bytes]]) -> None:
    device = shelly()
    step, course = step_of(device, "update"), Course()

    for topic, payload in lines:
        course = follow(step, course, Heard(topic=topic, decoded=live(device, topic, payload)))

    assert not course.done


def test_a_player_with_an_address_tells_all_there_is() -> None:
    device = made(family("url-and-progress"), "p-1")
    lines = [
        ("player/p-1/update/answer", '{"request":7,"ok":true}'),
        ("player/p-1/update/progress", '{"percent":30,"seconds":90}'),
        ("player/p-1/update/progress", '{"percent":100,"seconds":0}'),
    ]

    course = heard(device, "update", lines)

    assert (course.percent, course.remaining, course.done) == (100, timedelta(0), True)
