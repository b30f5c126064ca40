"""The gate: may this be done? One function of values, asked at each moment that matters.

    size > shape, payload type > signatures > schema                    ``opened``
    > hub, epoch > identity > sequence > superseded? > validity          ``judge``
    > bans, kill switch > issuer, action > artifact > device > arguments > state, precondition > operation
    > what it may have to wait for: the time, approvals, an unknown outcome

Cheapest and most certain first, so that what is refused early costs little and what is told to an
unknown sender says little. The same function is asked when a command comes in (ADMIT), right before
anything is sent to its device (ACT), and when a dead letter is replayed (REPLAY). Identity is that of
the payload bytes, never of the envelope around them.
"""
