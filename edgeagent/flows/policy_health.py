"""How the policy stands, for health: in force, about to end, in its grace, over; and what to do."""

from datetime import timedelta
from typing import Final

from edgeagent.clock import Wall
from edgeagent.contracts.policy import Policy, Tier
from edgeagent.contracts.reports.health import Check, Level
from edgeagent.flows.trust import Trust

_SOON: Final = timedelta(days=7)
_NEWER: Final = "publish or sign a newer one with edgeagent issuer policy"


def policy_check(trust: Trust, wall: Wall) -> Check:
    """Look at the policy."""
    policy, life = trust.policy, trust.life
    if policy is None or life is None:
        return _without(trust)
    begun, until = life
    version = f"version {policy.version}"
    if wall.earliest >= until:
        return _past(policy, wall.earliest - until, f"{version} expired at {until:%Y-%m-%d %H:%M} UTC")
    refused = _refused(trust, version)
    if refused is not None:
        return refused
    if until - wall.earliest <= min(_SOON, (until - begun) / 4):
        why = f"; it cannot be renewed: {trust.source_problem}" if trust.source_problem else ""
        return _check(Level.WARNING, f"{version} ends at {until:%Y-%m-%d %H:%M} UTC{why}", _NEWER)
    if wall.latest is None or wall.latest >= until:
        # The check of the clock warns of it already.
        return _check(
            Level.OK,
            f"{version} is in force; whether its time is over cannot be told: the clock is not sure",
            "see the check clock",
        )
    note = f"; not renewed: {trust.source_problem}" if trust.source_problem else ""
    return _check(Level.OK, f"{version} is in force until {until:%Y-%m-%d %H:%M} UTC{note}")


def _refused(trust: Trust, version: str) -> Check | None:
    if trust.policy_problem:
        return _check(
            Level.WARNING,
            f"{version} is in force; what came later was refused: {trust.policy_problem}",
            "sign or publish it anew, with a higher version",
        )
    if trust.refused_artifacts:
        return _check(
            Level.WARNING,
            f"{version} is in force; artifacts beside it were refused: {trust.refused_artifacts}",
            "edgeagent artifacts list; the issuer types edgeagent issuer repository check",
        )
    return None


def _without(trust: Trust) -> Check:
    problem = trust.policy_problem
    is_configured = problem != "no policy is configured"
    why = f" ({trust.source_problem})" if trust.source_problem else ""
    return _check(
        Level.CRITICAL if is_configured else Level.OK,
        f"{problem}{why}: readings go up, commands are refused",
        "sign a policy with edgeagent issuer policy sign" if is_configured else "",
    )


def _past(policy: Policy, over: timedelta, summary: str) -> Check:
    left = [tier for tier in Tier if policy.tier_rule(tier).grace > over]
    if not left:
        return _check(Level.CRITICAL, summary, _NEWER)
    return _check(Level.WARNING, f"{summary}; its grace still allows tier {', '.join(left)}", _NEWER)


def _check(level: Level, summary: str, advice: str = "") -> Check:
    return Check(name="policy", level=level, summary=summary, advice=advice)
