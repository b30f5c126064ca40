"""Ed25519 as this gate takes it: the vectors of RFC 8032, and what the curve allows beside them.

What libraries differ about is pinned here: a library that would take more is not taken.
"""

from dataclasses import dataclass

import pytest

from edgeagent.contracts.policy import id_of_key
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.scalars import is_sound_key
from edgeagent.core.envelope import (
    RefusedEnvelopeError,
    is_signed,
    pre_authentication_encoding,
    verify,
)
from tests.support.edwards import (
    BASE,
    NEUTRAL,
    ORDER,
    PRIME,
    challenge,
    plus,
    scalar_of,
    small_points,
    times,
    written,
    xs_of,
)
from tests.support.published_keys import TEST_1, TEST_2, TEST_3, TEST_1024, TEST_SHA_ABC, PublishedKey
from tests.vectors.making import compact, envelope

TYPE = "application/vnd.edgeagent.command.v1+json"
LIMIT = 8 * 1024
SMALL = sorted(small_points())
OF_ORDER_8 = next(point for point in SMALL if times(4, point) != NEUTRAL)

pytestmark = pytest.mark.requirement("T1")


@dataclass(frozen=True, slots=True)
class Published:
    """A vector of RFC 8032 section 7.1."""

    key: PublishedKey
    public: str
    message: str
    signature: str


PUBLISHED = [
    Published(
        TEST_1,
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        "d25bf5f0595bbe24655141438e7a100b",
    ),
    Published(
        TEST_2,
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
        "387b2eaeb4302aeeb00d291612bb0c00",
    ),
    Published(
        TEST_3,
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
        "4a7c15e9716ed28dc027beceea1ec40a",
    ),
    Published(
        TEST_SHA_ABC,
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd"
        "454d4423643ce80e2a9ac94fa54ca49f",
        "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e030"
        "3dca179c138ac17ad9bef1177331a704",
    ),
]


def taken(public: bytes, signature: bytes, payload: bytes = b"payload") -> bool:
    """Whether the signature counts as that of the key over this payload's encoding."""
    raw = compact(envelope(payload, [(id_of_key(public), signature)]))
    try:
        verify(raw, {id_of_key(public): public}, TYPE, limit=LIMIT)
    except RefusedEnvelopeError as why:
        assert why.reason is Reason.BAD_SIGNATURE  # noqa: PT017 - that it is raised is half of the answer
        return False
    return True


def message_of(payload: bytes = b"payload") -> bytes:
    """What is signed of a payload."""
    return pre_authentication_encoding(TYPE, payload)


def forged(public: bytes, r: bytes, number: int, payload: bytes = b"payload") -> bool:
    """Whether R and a number, put together, are taken."""
    return taken(public, r + number.to_bytes(32, "little"), payload)


@pytest.mark.parametrize("vector", PUBLISHED, ids=lambda vector: vector.public[:8])
def test_the_published_keys_sign_what_the_standard_says(vector: Published) -> None:
    assert vector.key.public.hex() == vector.public
    assert vector.key.sign(bytes.fromhex(vector.message)).hex() == vector.signature


@pytest.mark.parametrize("vector", PUBLISHED, ids=lambda vector: vector.public[:8])
def test_the_published_signatures_are_taken_and_no_others(vector: Published) -> None:
    public, signature = bytes.fromhex(vector.public), bytes.fromhex(vector.signature)
    message = bytes.fromhex(vector.message)

    assert is_signed(message, signature, public)
    assert not is_signed(message + b"\0", signature, public)
    assert not is_signed(message, signature[:-1], public)
    assert not is_signed(message, signature, public[::-1])


@pytest.mark.parametrize(
    "key", [TEST_1, TEST_2, TEST_3, TEST_1024, TEST_SHA_ABC], ids=lambda key: key.public.hex()[:8]
)
def test_what_a_published_key_signs_is_taken_and_what_another_signs_is_not(key: PublishedKey) -> None:
    other = TEST_2 if key is TEST_1 else TEST_1

    assert taken(key.public, key.sign(message_of()))
    assert not taken(key.public, other.sign(message_of()))
    assert not taken(key.public, key.sign(message_of(b"another")))


@pytest.mark.parametrize("bit", range(0, 512, 7))
def test_no_flipped_bit_of_a_signature_is_taken(bit: int) -> None:
    signature = bytearray(TEST_1.sign(message_of()))
    signature[bit // 8] ^= 1 << bit % 8

    assert not taken(TEST_1.public, bytes(signature))


@pytest.mark.parametrize("more", range(1, 9))
def test_a_signature_has_one_spelling_of_its_number(more: int) -> None:
    """S below L (RFC 8032 section 5.1.7): else anybody could make a second signature of each."""
    signature = TEST_1.sign(message_of())
    number = int.from_bytes(signature[32:], "little")

    assert forged(TEST_1.public, signature[:32], number)
    assert not forged(TEST_1.public, signature[:32], number + more * ORDER)


def test_the_points_of_small_order_are_eight_and_none_of_them_is_a_key() -> None:
    assert len(SMALL) == 8
    assert not any(is_sound_key(written(point)) for point in SMALL)


@pytest.mark.parametrize("point", SMALL, ids=lambda point: written(point).hex()[:8])
def test_nobody_can_sign_for_a_key_of_small_order(point: tuple[int, int]) -> None:
    """By the equation of the standard a signature of zeros is good for at least every eighth message."""
    public, r = written(point), written(NEUTRAL)
    payloads = [b"%d" % number for number in range(64)]

    good = [body for body in payloads if times(challenge(r, public, message_of(body)), point) == NEUTRAL]

    assert good
    assert not any(forged(public, r, 0, body) for body in good)


@pytest.mark.parametrize("y", range(19))
@pytest.mark.parametrize("sign", [0, 1])
def test_a_second_spelling_of_a_key_is_none(y: int, sign: int) -> None:
    """The points of y and y + p are the same, and would have two ids."""
    second = (y + PRIME | sign << 255).to_bytes(32, "little")

    assert not is_sound_key(second)
    assert not any(forged(second, written(NEUTRAL), 0, b"%d" % number) for number in range(8))


def test_a_key_of_no_point_verifies_nothing() -> None:
    nowhere = next(y for y in range(2, 50) if not any(xs_of(y))).to_bytes(32, "little")

    assert is_sound_key(nowhere)
    assert not forged(nowhere, written(NEUTRAL), 0)
    assert not taken(nowhere, TEST_1.sign(message_of()))


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_key_of_another_length_is_none(length: int) -> None:
    assert not is_sound_key(bytes([7]) * length)
    assert not taken(bytes([7]) * length, TEST_1.sign(message_of()))


def test_a_key_with_a_small_part_is_held_to_the_equation_without_the_cofactor() -> None:
    """Verifiers that multiply by eight take what others do not; all must say the same at every hub."""
    secret = scalar_of(bytes.fromhex(TEST_1.seed))
    public = written(plus(times(secret, BASE), OF_ORDER_8))
    payloads = [b"%d" % number for number in range(32)]
    r = written(times(5, BASE))

    def number(body: bytes) -> int:
        return (5 + challenge(r, public, message_of(body)) * secret) % ORDER

    with_it = [body for body in payloads if challenge(r, public, message_of(body)) % 8]
    without = [body for body in payloads if challenge(r, public, message_of(body)) % 8 == 0]

    assert with_it
    assert without
    assert not any(forged(public, r, number(body), body) for body in with_it)
    assert all(forged(public, r, number(body), body) for body in without)


def test_the_first_half_of_a_signature_is_compared_by_its_bytes() -> None:
    """R is (0, 1) by its second spelling, y = p + 1: who holds the key can make it, and it is not taken."""
    secret = scalar_of(bytes.fromhex(TEST_1.seed))
    first, second = written(NEUTRAL), (PRIME + 1).to_bytes(32, "little")

    def number(r: bytes) -> int:
        return challenge(r, TEST_1.public, message_of()) * secret % ORDER

    assert forged(TEST_1.public, first, number(first))
    assert not forged(TEST_1.public, second, number(second))
