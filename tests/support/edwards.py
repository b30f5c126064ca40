"""The curve of Ed25519 by the book (RFC 8032 section 5.1): slow, and able to make what no library makes.

Only for tests: nothing here is done in constant time.
"""

from collections.abc import Iterator
from hashlib import sha512
from typing import Final

PRIME: Final = 2**255 - 19
ORDER: Final = 2**252 + 27742317777372353535851937790883648493
"""Of the group that the base point makes; the whole curve has eight times as many points."""

_D: Final = -121665 * pow(121666, -1, PRIME) % PRIME
_ROOT_OF_MINUS_1: Final = pow(2, (PRIME - 1) // 4, PRIME)

_SMALL: Final = 8

Point = tuple[int, int]
"""x and y."""

NEUTRAL: Final[Point] = (0, 1)


def plus(one: Point, other: Point) -> Point:
    """The sum of two points."""
    (x1, y1), (x2, y2) = one, other
    product = _D * x1 * x2 * y1 * y2 % PRIME
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, PRIME)
    y = (y1 * y2 + x1 * x2) * pow(1 - product, -1, PRIME)
    return x % PRIME, y % PRIME


def times(number: int, point: Point) -> Point:
    """A point added to itself."""
    total = NEUTRAL
    while number:
        if number & 1:
            total = plus(total, point)
        point, number = plus(point, point), number >> 1
    return total


def written(point: Point) -> bytes:
    """The 32 bytes of a point: y, and the lowest bit of x above it."""
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


def xs_of(y: int) -> Iterator[int]:
    """The one or two x that go with a y; none where y is on no point."""
    square = (y * y - 1) * pow(_D * y * y + 1, -1, PRIME) % PRIME
    root = pow(square, (PRIME + 3) // 8, PRIME)
    for x in {root, root * _ROOT_OF_MINUS_1 % PRIME}:
        if x * x % PRIME == square:
            yield from {x, -x % PRIME}


BASE: Final[Point] = min(
    (x, 4 * pow(5, -1, PRIME) % PRIME) for x in xs_of(4 * pow(5, -1, PRIME) % PRIME) if x % 2 == 0
)
"""The base point: y is 4/5, x is even."""


def small_points() -> set[Point]:
    """The eight points whose order divides eight."""
    found = {NEUTRAL}
    for y in range(2, 50):
        for x in xs_of(y):
            eighth = times(ORDER, (x, y))
            found.update(times(number, eighth) for number in range(8))
            if len(found) == _SMALL:
                return found
    raise AssertionError("there are eight")


def scalar_of(seed: bytes) -> int:
    """The secret number that a private key stands for."""
    low = bytearray(sha512(seed).digest()[:32])
    low[0] &= 248
    low[31] &= 127
    low[31] |= 64
    return int.from_bytes(low, "little")


def challenge(r: bytes, public: bytes, message: bytes) -> int:
    """The number that binds a signature to key and message."""
    return int.from_bytes(sha512(r + public + message).digest(), "little") % ORDER
