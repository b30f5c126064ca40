"""Which version is the later: the shapes of real devices, and a total order within each."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.contracts.firmware import VersionScheme
from edgeagent.core.versions import Order, compare, is_of, reaches

pytestmark = pytest.mark.requirement("F1", "V3")

OPPOSITE = {
    Order.OLDER: Order.NEWER,
    Order.NEWER: Order.OLDER,
    Order.SAME: Order.SAME,
    Order.UNKNOWN: Order.UNKNOWN,
}


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(
            ["9.5.0(tasmota)", "13.4.0(tasmota)", "14.1.0(tasmota)", "14.10.0(tasmota)"], id="tasmota"
        ),
        pytest.param(
            ["14.1.0(minimal)", "14.1.1(tasmota)", "14.1.1.2(tasmota)", "15.0.0"], id="other builds"
        ),
        pytest.param(
            ["0.14.1", "1.0.0-beta1", "1.0.0-beta2", "1.0.0-beta10", "1.0.0", "1.4.2"], id="shelly gen2"
        ),
        pytest.param(["1.0.0-alpha3", "1.0.0-beta", "1.0.0-rc1", "1.0.0"], id="stages"),
        pytest.param(
            [
                "20221027-102248/v1.12.1-ga9117d3",
                "20230913-112003/v1.14.0-gcb84623",
                "20231107-162609/v1.14.1-rc1-g0617c15",
                "20240213-140411/v1.14.1-gabc1234",
                "20240214-000000/v1.14.1-gdef5678",
            ],
            id="shelly by date",
        ),
        pytest.param(["1", "9", "10", "192", "16777241", "4294967295"], id="zigbee"),
    ],
)
def test_each_is_newer_than_the_one_before(later: list[str]) -> None:
    for one, other in pairwise(later):
        assert compare(other, one) is Order.NEWER
        assert compare(one, other) is Order.OLDER


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("14.1.0", "14.1.0(tasmota)", id="one does not tell its build"),
        pytest.param("1.4", "1.4.0", id="a zero that is not written"),
        pytest.param("v1.14.0", "1.14.0", id="a letter before"),
        pytest.param("14.1.0(tasmota)", "14.1.0(release-tasmota)", id="the release of a build"),
        pytest.param("1.2.2", "20240213-140411/1.2.2-gabcd", id="one does not tell its date"),
        pytest.param("what it is", "what it is", id="a shape that nobody knows"),
        pytest.param("-1", "-1", id="unknown to the bridge itself"),
    ],
)
def test_two_that_say_the_same_are_the_same(one: str, other: str) -> None:
    assert compare(one, other) is compare(other, one) is Order.SAME


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("14.1.0(minimal)", "14.1.0(tasmota)", id="two builds of one number"),
        pytest.param("14.1.0(minimal)", "14.1.0(release-tasmota)", id="a build with a dash"),
        pytest.param("192", "1.9.2", id="two shapes"),
        pytest.param("-1", "90", id="what the bridge does not know"),
        pytest.param("00192", "192", id="a number with zeros before"),
        pytest.param("1.2.3.4.5", "1.2.3", id="too many numbers"),
        pytest.param("1.2.3-dirty", "1.2.3", id="a stage that nobody knows"),
        pytest.param("1.2.٣", "1.2.3", id="digits of another script"),
        pytest.param("1.2.3\n", "1.2.3", id="a line's end"),
        pytest.param("", "1.2.3", id="nothing"),
        pytest.param("9" * 400, "1", id="a number without end"),
    ],
)
def test_what_cannot_be_compared_is_not_guessed(one: str, other: str) -> None:
    assert compare(one, other) is compare(other, one) is Order.UNKNOWN
    assert not reaches(one, other)


@pytest.mark.parametrize(
    ("version", "schemes"),
    [
        ("14.1.0", {"tasmota", "shelly", "dotted"}),
        ("14.1.0(release-tasmota)", {"tasmota"}),
        ("1.4.0-beta2", {"shelly", "dotted"}),
        ("20240213-140411/v1.14.1-gabc1234", {"shelly"}),
        ("192", {"integer"}),
        ("-1", set()),
        ("latest", set()),
    ],
)
def test_a_family_has_a_shape(version: str, schemes: set[str]) -> None:
    assert {scheme for scheme in VersionScheme if is_of(scheme, version)} == schemes


def test_a_floor_is_reached_by_itself_and_what_is_later() -> None:
    assert reaches("14.1.0(tasmota)", "14.1.0")
    assert reaches("14.2.0", "14.1.0")
    assert not reaches("14.0.9", "14.1.0")


numbers = st.integers(0, 10**9 - 1)
whole = st.integers(0, 10**10 - 1).map(str)
dotted = st.builds(
    lambda parts, stage: ".".join(map(str, parts)) + stage,
    st.lists(numbers, min_size=2, max_size=4),
    st.sampled_from(["", "-beta1", "-rc2", "-alpha"]),
)
dated = st.builds(
    lambda day, time, version: f"{day:08}-{time:06}/{version}",
    *(st.integers(0, 10**8 - 1), st.integers(0, 10**6 - 1), dotted),
)


@pytest.mark.parametrize("scheme", [whole, dotted, dated], ids=["whole", "dotted", "dated"])
def test_within_a_shape_the_order_is_total(scheme: st.SearchStrategy[str]) -> None:
    @given(scheme, scheme, scheme)
    def holds(a: str, b: str, c: str) -> None:
        ab, bc, ac = compare(a, b), compare(b, c), compare(a, c)
        assert compare(a, a) is Order.SAME
        assert Order.UNKNOWN not in {ab, bc, ac}
        assert compare(b, a) is OPPOSITE[ab]
        if ab is bc:
            assert ac is ab
        if ab is Order.SAME:
            assert ac is bc

    holds()


@given(st.text(), st.text())
def test_any_two_texts_are_compared_both_ways_alike(one: str, other: str) -> None:
    assert compare(other, one) is OPPOSITE[compare(one, other)]
