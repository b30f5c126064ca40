"""From the firmware section of a profile to the plan of one update of one device.

Like any plan it is a pure function of the profile, the device and what is given: after a restart the same
one is made again. The address and the version are values in the place of whole texts; an address that the
device could not hold, or not fetch from, is refused before anything is sent.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Final
from urllib.parse import urlsplit

from pydantic import JsonValue

from edgeagent.contracts.firmware import Cancel, Fetches, FirmwareRecipe, FirmwareStep, Gauge
from edgeagent.contracts.recipes import Denial, Reply
from edgeagent.core.lease import Parent
from edgeagent.core.profile.layout import Outline
from edgeagent.core.profile.parameters import URL, VERSION, Scope, applies
from edgeagent.core.profile.paths import getter, path
from edgeagent.core.profile.plan import Ground, Step, all_values, answers_of, asking, payload_of, refusal_of
from edgeagent.core.profile.predicates import predicate
from edgeagent.core.profile.shared import parent_of
from edgeagent.core.updating import Meter, UpdateStep, Verification
from edgeagent.errors import MalformedError
from edgeagent.ids import ReadingName
from edgeagent.values import dataclass

_NUMBERS: Final = 2**31
_SCHEMES: Final = {
    Fetches.HTTP: frozenset({"http"}),
    Fetches.HTTPS: frozenset({"http", "https"}),
    Fetches.BRIDGE: frozenset({"http", "https"}),
}


@dataclass(frozen=True, slots=True)
class Charge:
    """What a reading must be for an update to begin, where it is known.

    Attributes:
        reading: which.
        at_least: its least value.
    """

    reading: ReadingName
    at_least: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmwarePlan:
    """How an image is installed on this device.

    Attributes:
        steps: what is sent, in this order; each when the one before is over.
        verification: the last step, whatever the profile says.
        parent: what is occupied beside the device.
        lasts: at most so long.
    """

    steps: tuple[UpdateStep, ...]
    verification: Verification
    parent: Parent | None
    lasts: timedelta


def update_plan(outline: Outline, *, url: str, version: str, number: int) -> FirmwarePlan:
    """Make the plan of an update.

    Args:
        outline: of the device.
        url: where whoever fetches it finds it.
        version: which one it is.
        number: 31 bits that nobody can guess. Each message has its own, counted from it.

    Raises:
        MalformedError: the family is not updated over the air, the device cannot hold the address or
            fetch from it, or the version is none of the family's.
    """
    recipe = outline.profile.firmware
    if recipe is None:
        raise MalformedError(f"{outline.profile.id} is not updated over the air")
    _check_url(recipe, url)
    running = outline.names_for(None).get(recipe.running)
    if running is None:
        raise MalformedError(f"the device does not tell its {recipe.running}")
    verification = Verification(
        reading=running,
        version=version,
        scheme=recipe.scheme,
        interim=recipe.interim,
        settles=recipe.settles,
    )
    if not verification.can_be_told():
        raise MalformedError(f"{version!r} is no version of {outline.profile.id}")
    grounds = _grounds(outline, {URL: url, VERSION: version}, number)
    steps = tuple(_step(step, outline.profile.refusals, next(grounds)) for step in recipe.steps)
    return FirmwarePlan(
        steps=steps,
        verification=verification,
        parent=parent_of(outline.profile, recipe.occupies, outline.scope),
        lasts=sum((step.within + (step.returns or timedelta(0)) for step in steps), recipe.settles),
    )


def topics_of(outline: Outline) -> Iterator[tuple[str, Scope]]:
    """The topics on which an update is answered, as the profile writes them."""
    recipe = outline.profile.firmware
    if recipe is None:
        return
    rules: list[Reply | Denial | Gauge] = []
    for step in recipe.steps:
        rules += (*step.confirm, *step.fail, *step.progress, *step.done)
    if recipe.cancel is not None:
        rules += (*recipe.cancel.confirm, *recipe.cancel.fail)
    for rule in rules:
        if applies(rule.only_if, outline.scope):
            yield rule.topic, outline.scope


def _check_url(recipe: FirmwareRecipe, url: str) -> None:
    if len(url) > recipe.longest_url:
        raise MalformedError(
            f"an address of {len(url)} characters, of which the device holds {recipe.longest_url}"
        )
    if not url.isascii() or not url.isprintable() or set(url) & set(" \"'<>\\"):
        raise MalformedError("not an address that every device reads alike")
    try:
        parts = urlsplit(url)
    except ValueError as why:
        raise MalformedError("not an address") from why
    if parts.scheme not in _SCHEMES[recipe.fetches] or not parts.hostname or parts.username is not None:
        raise MalformedError(f"it fetches over {' or '.join(sorted(_SCHEMES[recipe.fetches]))}")


def _grounds(outline: Outline, values: Mapping[str, JsonValue], number: int) -> Iterator[Ground]:
    names = outline.names_for(None)
    for added in count():
        own = (number + added) % _NUMBERS
        yield Ground(
            scope=outline.scope,
            values=all_values(outline.scope, values, own),
            number=own,
            names=names,
            own_topics=outline.own_topics,
        )


def _step(step: FirmwareStep, refusals: tuple[Denial, ...], ground: Ground) -> UpdateStep:
    denials = [rule for rule in (*step.fail, *refusals) if applies(rule.only_if, ground.scope)]
    gauges = [rule for rule in step.progress if applies(rule.only_if, ground.scope)]
    return UpdateStep(
        name=step.name,
        topic=ground.topic(step.publish.topic),
        payload=payload_of(step.publish, ground),
        taken=answers_of(step.confirm, ground),
        done=answers_of(step.done, ground),
        refusals=tuple(refusal_of(rule, ground) for rule in denials),
        meters=tuple(_meter(rule, ground) for rule in gauges),
        stall=step.stall,
        within=step.within,
        returns=step.returns,
    )


def _meter(rule: Gauge, ground: Ground) -> Meter:
    values = ground.values
    return Meter(
        topic=ground.topic(rule.topic),
        tests=tuple(predicate(text).bind(values) for text in rule.when),
        percent=None if rule.percent is None else getter(path(rule.percent)),
        remaining=None if rule.remaining is None else getter(path(rule.remaining)),
    )


def cancel_step(outline: Outline, *, number: int) -> Step | None:
    """Make the message that calls a running update off; None where the family has none.

    Args:
        outline: of the device.
        number: 31 bits that nobody can guess.
    """
    recipe = outline.profile.firmware
    if recipe is None or recipe.cancel is None:
        return None
    return _cancel(recipe.cancel, next(_grounds(outline, {}, number)))


def _cancel(cancel: Cancel, ground: Ground) -> Step:
    asked = asking(cancel.publish, cancel.confirm, cancel.within, ground)
    refusals = tuple(refusal_of(rule, ground) for rule in cancel.fail if applies(rule.only_if, ground.scope))
    return Step(
        topic=asked.topic, payload=asked.payload, expectation=replace(asked.expectation, refusals=refusals)
    )


def charges_of(outline: Outline) -> tuple[Charge, ...]:
    """What must be so before an update of the device begins, where it is known."""
    recipe, names = outline.profile.firmware, outline.names_for(None)
    if recipe is None:
        return ()
    return tuple(
        Charge(names[each.reading], each.at_least) for each in recipe.require if each.reading in names
    )
