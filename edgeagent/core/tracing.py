"""The trace of a command: which one it belongs to, and the ids of its spans.

Ids are drawn from what they name and not from chance: the span that a device was told of in flight is
the one that the timeline shows afterwards, also after a restart, and nothing has to be stored for it.
"""

from hashlib import sha256
from typing import Final

from edgeagent.contracts.traceparent import Traceparent, read_traceparent
from edgeagent.ids import DeviceId, Digest

_TRACE_DIGITS: Final = 32
_SPAN_DIGITS: Final = 16


def trace_of(told: str | None, payload: Digest) -> Traceparent:
    """The trace of a command: its issuer's, or else one of its own, which nobody else has begun.

    Args:
        told: the ``traceparent`` that came with it.
        payload: the digest of its payload.
    """
    parent = read_traceparent(told)
    if parent is not None:
        return parent
    return Traceparent(_drawn(_TRACE_DIGITS, "trace", payload), "0" * _SPAN_DIGITS, sampled=True)


def follows(told: str | None, payload: Digest, device: DeviceId, run: int) -> Traceparent:
    """The trace of a run that repeats another: the same, below the receipt of that one.

    Args:
        told: the ``traceparent`` of the run that is repeated.
        payload: the digest of the command's payload.
        device: on which device.
        run: that run; 0 where there was none.
    """
    trace = trace_of(told, payload)
    return within(trace, device, run, "receipt") if run else trace


def within(trace: Traceparent, device: DeviceId, run: int, name: str, number: int = 0) -> Traceparent:
    """A span of a command on a device, as the parent of what follows from it.

    Args:
        trace: the command's.
        device: on which device.
        run: the number of the run there.
        name: of the span.
        number: which one, where there are several: an attempt, a fence.
    """
    span = _drawn(_SPAN_DIGITS, trace.trace, trace.span, device, str(run), name, str(number))
    return Traceparent(trace.trace, span, trace.sampled)


def _drawn(digits: int, *parts: str) -> str:
    return sha256("\n".join(("edgeagent", *parts)).encode()).hexdigest()[:digits]
