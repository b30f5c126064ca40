"""Cutting a connection's bytes into packets, and decoding messages: whatever the bytes are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.adapters.mqtt.framing import Splitter, publish_of
from edgeagent.ports.links import LinkError, Trouble
from tests.support.scripted_broker import packet, publish

LARGEST = 10_000

bodies = st.binary(max_size=300)
messages = st.builds(
    publish,
    st.text(max_size=20),
    bodies,
    st.integers(1, 65_535),
    qos=st.sampled_from([0, 1]),
    dup=st.booleans(),
    retain=st.booleans(),
    properties=st.sampled_from(
        [b"", b"\x01\x01", b"\x02\x00\x00\x00\x09", b"\x26\x00\x60k" + b"\x00\x60v" * 40]
    ),
)
packets = st.one_of(messages, st.builds(packet, st.integers(1, 15), bodies))


def all_of(splitter: Splitter, pieces: list[bytes], most: int = 1000) -> list[bytes]:
    found = []
    for piece in pieces:
        splitter.feed(piece)
        found += [whole for whole, _ in splitter.cut(most)]
        while splitter.more:
            found += [whole for whole, _ in splitter.cut(most)]
    return found


@given(st.lists(packets, max_size=20), st.data())
def test_packets_come_out_whole_and_in_order_however_they_arrive(
    sent: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    most = data.draw(st.integers(1, 5))

    found = all_of(Splitter(LARGEST), [piece for piece in pieces if piece], most)

    assert found == sent


def test_a_packet_that_comes_byte_by_byte_comes_out_once() -> None:
    sent = publish("tele/1/data", b"x" * 5000, 7)

    found = all_of(Splitter(LARGEST), [bytes([byte]) for byte in sent])

    assert found == [sent]


def test_half_a_packet_is_kept_until_the_rest_comes() -> None:
    sent = publish("tele/1/data", b"x" * 500, 7)
    splitter = Splitter(LARGEST)
    splitter.feed(sent[:100])

    assert splitter.cut(10) == []
    assert not splitter.more


def test_no_more_than_was_asked_for_is_handed_out_at_once() -> None:
    splitter = Splitter(LARGEST)
    splitter.feed(publish("a", b"1", 1) * 5)

    assert len(splitter.cut(3)) == 3
    assert splitter.more
    assert len(splitter.cut(3)) == 2
    assert not splitter.more


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(packet(3, b"x" * LARGEST), id="one byte too large"),
        pytest.param(b"\x30\xff\xff\xff\x7f", id="the largest length there is"),
        pytest.param(b"\x30\xff\xff\xff\xff\x01", id="a length of five bytes"),
    ],
)
@pytest.mark.requirement("M6", "R7")
def test_what_is_too_large_ends_it_before_it_is_stored(sent: bytes) -> None:
    splitter = Splitter(LARGEST)
    splitter.feed(sent)

    with pytest.raises(LinkError) as caught:
        splitter.cut(10)

    assert caught.value.trouble is Trouble.BROKEN_ANSWER


def test_the_largest_allowed_packet_is_taken() -> None:
    sent = packet(3, b"x" * (LARGEST - 3))
    assert len(sent) == LARGEST

    assert all_of(Splitter(LARGEST), [sent]) == [sent]


@pytest.mark.requirement("M6")
@given(st.lists(st.binary(max_size=50), max_size=20))
def test_any_bytes_yield_packets_or_a_link_error(pieces: list[bytes]) -> None:
    splitter = Splitter(100)
    try:
        for piece in pieces:
            splitter.feed(piece)
            for whole, start in splitter.cut(1000):
                if whole[0] >> 4 == 3:
                    publish_of(whole, start)
    except LinkError:
        pass


@given(
    st.text(max_size=300).filter(lambda text: len(text.encode()) < 60_000),
    st.binary(max_size=500),
    st.integers(1, 65_535),
    st.sampled_from([0, 1]),
    st.integers(0, 300),
)
def test_a_message_is_decoded_to_what_was_sent(
    topic: str, payload: bytes, packet_id: int, qos: int, properties: int
) -> None:
    # The length of the properties is a number of one or two bytes itself.
    size = bytes([properties]) if properties < 128 else bytes([properties & 0x7F | 0x80, properties >> 7])
    number = packet_id.to_bytes(2) if qos else b""
    name = topic.encode()
    whole = packet(
        3, len(name).to_bytes(2) + name + number + size + bytes(properties) + payload, flags=qos << 1
    )
    [(sent, start)] = cut(whole)

    assert publish_of(sent, start) == (topic, payload, packet_id if qos else 0)


@pytest.mark.requirement("M6")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x00", id="half a length"),
        pytest.param(b"\xff\xfftopic", id="a topic longer than the packet"),
        pytest.param(b"\x00\x01a\x00", id="half a packet id"),
        pytest.param(b"\x00\x01a\x00\x07", id="no properties"),
        pytest.param(b"\x00\x01a\x00\x07\x05\x01", id="properties longer than the packet"),
        pytest.param(b"\x00\x01a\x00\x07\x80", id="half a length of properties"),
        pytest.param(b"\x00\x01a\x00\x00\x00", id="packet id 0"),
    ],
)
def test_a_message_that_does_not_hold_together_is_refused(body: bytes) -> None:
    [(sent, start)] = cut(packet(3, body, flags=2))

    with pytest.raises(LinkError) as caught:
        publish_of(sent, start)

    assert caught.value.trouble is Trouble.BROKEN_ANSWER


@pytest.mark.requirement("Q1")
def test_a_message_of_qos_2_is_refused_since_no_kill_may_lose_it() -> None:
    """With QoS 2 the broker hands its message over at PUBREC, long before a commit."""
    [(sent, start)] = cut(publish("a", b"", 1, qos=2))

    with pytest.raises(LinkError):
        publish_of(sent, start)


@pytest.mark.requirement("M6")
def test_a_topic_that_is_no_utf8_comes_as_text_that_matches_nothing() -> None:
    [(sent, start)] = cut(publish(b"tele/\xff\xfe/data", b"1", 7))

    topic, payload, packet_id = publish_of(sent, start)

    assert topic == "tele/\ufffd\ufffd/data"
    assert (payload, packet_id) == (b"1", 7)
    assert topic.encode()  # fit for a log and a database


def cut(whole: bytes) -> list[tuple[bytes, int]]:
    splitter = Splitter(100_000)
    splitter.feed(whole)
    return splitter.cut(10)
