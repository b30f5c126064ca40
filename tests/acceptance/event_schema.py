"""Real traffic, held against ``docs/events.schema.json`` (SPEC U8)."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from edgeagent.contracts.door import encode
from edgeagent.contracts.event import CloudEvent

_SCHEMA: Final = Path(__file__).parents[2] / "docs" / "events.schema.json"


def misfits(events: Iterable[CloudEvent]) -> list[str]:
    """What the schema has against events; empty when all of them fit."""
    # Read where it is needed: it takes longer than all of a room's tests, and each process would read it.
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(json.loads(_SCHEMA.read_text("utf-8")))
    told = [json.loads(encode(event)) for event in events]
    return [f"{each['type']}: {why.message}" for each in told for why in validator.iter_errors(each)]
