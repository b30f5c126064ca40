"""The actions of a profile that are made of others, checked before any device is compiled.

Nothing that the catalogue asks for may be left out, and nothing that it does not name may come in: what
an issuer signs as one action is done as that action, whichever family does it.
"""

from collections import Counter

from edgeagent.contracts.actions import CATALOGUE, ActionName
from edgeagent.contracts.profile import DeviceProfile
from edgeagent.core.profile.mistakes import Mistakes


def check(profile: DeviceProfile, found: Mistakes) -> None:
    """Note what is wrong with the steps."""
    for name, steps in profile.steps.items():
        place = f"steps.{name}"
        found.unless(name not in profile.commands, place, "it has a recipe of its own as well")
        offered = {part.action: part for part in CATALOGUE[name].parts}
        found.unless(offered, place, "the catalogue's action is not made of others")
        for step, times in Counter(steps).items():
            found.unless(step in offered, place, f"{step} is no part of {name}")
            found.unless(step in profile.commands, place, f"there is no command {step}")
            found.unless(times == 1, place, f"{step} is named twice")
        occupied = {
            recipe.occupies for step in steps for recipe in profile.commands.get(step, ()) if recipe.occupies
        }
        found.unless(len(occupied) <= 1, place, "its steps occupy more than one shared thing")
        for missing in _missing(name, steps):
            found.add(place, f"{missing} is missing")


def _missing(name: ActionName, steps: tuple[ActionName, ...]) -> list[ActionName]:
    action = CATALOGUE[name]
    return [part.action for part in action.parts if action.needs(part) and part.action not in steps]
