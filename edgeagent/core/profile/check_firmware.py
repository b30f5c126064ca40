"""The firmware section of a profile, checked before any device is compiled.

The address goes into exactly one message, as a whole text of its payload, and into no topic. What passes a
request on to the device, such as a bridge, may be spoken to only when the section occupies it.
"""

from typing import Final

from edgeagent.contracts.firmware import Cancel, Fetches, FirmwareRecipe, FirmwareStep, Gauge, Told
from edgeagent.contracts.profile import DeviceProfile, ParameterType
from edgeagent.contracts.recipes import Publication
from edgeagent.contracts.sources import ReadingKind
from edgeagent.core.profile.check_commands import Checker
from edgeagent.core.profile.mistakes import Mistakes
from edgeagent.core.profile.names import check_names, check_path
from edgeagent.core.profile.parameters import URL, VERSION, identifying
from edgeagent.core.profile.paths import path
from edgeagent.core.profile.predicates import predicate
from edgeagent.core.profile.templates import Kinds, check_topic, names_in, template, whole

_GIVEN: Final[Kinds] = {URL: ParameterType.TEXT, VERSION: ParameterType.TEXT}
_NUMERIC: Final = frozenset({ReadingKind.INTEGER, ReadingKind.NUMBER})
_VERSIONS: Final = frozenset({ReadingKind.TEXT, ReadingKind.INTEGER})


def check(profile: DeviceProfile, found: Mistakes) -> None:
    """Note what is wrong with how firmware is installed."""
    recipe = profile.firmware
    if recipe is None:
        return
    known = recipe.occupies is None or recipe.occupies in profile.shared
    found.unless(known, "firmware.occupies", "not declared in shared")
    if not known:
        return
    section = _Section(profile, recipe, found)
    section.check_head()
    for number, step in enumerate(recipe.steps):
        section.check_step(f"firmware.step[{number}]", step)
    if recipe.cancel is not None:
        section.check_cancel(recipe.cancel)


class _Section:
    """The checks of one section."""

    def __init__(self, profile: DeviceProfile, recipe: FirmwareRecipe, found: Mistakes) -> None:
        self._profile = profile
        self._recipe = recipe
        self._found = found
        self._checker = Checker(profile, found)
        self._through = None if recipe.occupies is None else profile.shared[recipe.occupies].by

    def check_head(self) -> None:
        """The readings, what has to be so before, and where the address goes."""
        recipe, found = self._recipe, self._found
        self._check_reading("firmware.running", recipe.running, _VERSIONS)
        self._check_told("firmware.model", recipe.model)
        self._check_told("firmware.hardware", recipe.hardware)
        self._check_told("firmware.address", recipe.address)
        itself = recipe.address is None or recipe.fetches is not Fetches.BRIDGE
        found.unless(itself, "firmware.address", "it is not the device that fetches")
        for number, least in enumerate(recipe.require):
            self._check_reading(f"firmware.require[{number}]", least.reading, _NUMERIC)
        named = [step.name for step in recipe.steps]
        found.unless(len(set(named)) == len(named), "firmware.step", "a name stands twice")
        addressed = sum(URL in _mentioned(step.publish) for step in recipe.steps)
        found.unless(addressed == 1, "firmware.step", "{url} stands in exactly one message")

    def check_step(self, place: str, step: FirmwareStep) -> None:
        """What is sent and what may be heard."""
        checker, kinds, through = self._checker, {**self._checker.kinds, **_GIVEN}, self._through
        with self._found.at(f"{place}.publish"):
            checker.check_publish(step.publish, checker.kinds, _GIVEN, through=through)
        for key, replies in (("confirm", step.confirm), ("done", step.done)):
            for number, reply in enumerate(replies):
                checker.check_reply(f"{place}.{key}[{number}]", reply, step.publish, kinds)
        for number, denial in enumerate(step.fail):
            checker.check_denial(f"{place}.fail[{number}]", denial, step.publish, kinds, through=through)
        for number, denial in enumerate(self._profile.refusals):
            checker.check_denial(f"refusal[{number}] for {place}", denial, step.publish, kinds)
        for number, gauge in enumerate(step.progress):
            self._check_gauge(f"{place}.progress[{number}]", gauge, kinds)
        returns = step.returns is None or self._profile.availability.sources
        self._found.unless(returns, f"{place}.returns", "the device does not tell when it goes and comes")

    def check_cancel(self, cancel: Cancel) -> None:
        """How it is called off."""
        checker, through = self._checker, self._through
        with self._found.at("firmware.cancel.publish"):
            checker.check_publish(cancel.publish, checker.kinds, {}, through=through)
        for number, reply in enumerate(cancel.confirm):
            checker.check_reply(f"firmware.cancel.confirm[{number}]", reply, cancel.publish, checker.kinds)
        for number, denial in enumerate(cancel.fail):
            place = f"firmware.cancel.fail[{number}]"
            checker.check_denial(place, denial, cancel.publish, checker.kinds, through=through)

    def _check_gauge(self, place: str, gauge: Gauge, kinds: Kinds) -> None:
        self._checker.check_only_if(f"{place}.only_if", gauge.only_if)
        with self._found.at(f"{place}.topic"):
            check_topic(gauge.topic, self._checker.kinds)
            own = template(gauge.topic).placeholders & identifying(self._profile)
            self._found.unless(own, f"{place}.topic", "progress is believed on the device's own topic only")
        for number, text in enumerate(gauge.when):
            with self._found.at(f"{place}.when[{number}]"):
                check_names(predicate(text).placeholders, kinds)
        for key, where in (("percent", gauge.percent), ("remaining", gauge.remaining)):
            if where is not None:
                with self._found.at(f"{place}.{key}"):
                    check_path(path(where), {})

    def _check_reading(self, place: str, name: str, kinds: frozenset[ReadingKind]) -> None:
        reading = self._profile.readings.get(name)
        if reading is None:
            self._found.add(place, f"no reading {name!r}")
            return
        self._found.unless(reading.kind in kinds, place, f"{name} is of another kind")
        # One that some devices of the family have for several channels is none of the device.
        alone = all(source.each is None and "*" not in (source.pick or "") for source in reading.sources)
        self._found.unless(alone or kinds is _NUMERIC, place, f"{name} is not of the device as a whole")

    def _check_told(self, place: str, told: Told | None) -> None:
        if told is None:
            return
        parameter = told.parameter is None or told.parameter in self._profile.parameters
        self._found.unless(parameter, place, f"no parameter {told.parameter!r}")
        if told.reading is not None:
            self._check_reading(place, told.reading, _VERSIONS)


def _mentioned(publish: Publication) -> frozenset[str]:
    if publish.text is not None:
        named = whole(publish.text)
        return frozenset() if named is None else frozenset({named.name})
    return names_in(publish.tree)
