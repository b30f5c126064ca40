"""What a Zigbee2MQTT bridge lists, in the shape of the real one."""

from pydantic import JsonValue

Exposed = dict[str, JsonValue]

ALL = 7
"""Told, set and asked for."""


def state(name: str = "state") -> Exposed:
    """What can be switched."""
    return {
        "type": "binary",
        "name": "state",
        "property": name,
        "access": ALL,
        "value_on": "ON",
        "value_off": "OFF",
        "value_toggle": "TOGGLE",
    }


def number(name: str, access: int = 1, **more: JsonValue) -> Exposed:
    """What is measured, or set."""
    return {"type": "numeric", "name": name, "property": name, "access": access, **more}


def switch(*names: str) -> Exposed:
    """A switch of so many gangs."""
    return {"type": "switch", "features": [state(name) for name in names or ("state",)]}


def light(*more: str) -> Exposed:
    """A lamp that has these besides."""
    return {"type": "light", "features": [state(), *(number(name, ALL) for name in more)]}


COVER: Exposed = {
    "type": "cover",
    "features": [
        {
            "type": "enum",
            "name": "state",
            "property": "state",
            "access": 3,
            "values": ["OPEN", "CLOSE", "STOP"],
        },
        number("position", ALL, value_min=0, value_max=100, unit="%"),
    ],
}
VALVE: Exposed = {
    "type": "climate",
    "features": [
        number("occupied_heating_setpoint", ALL, value_min=5, value_max=30, unit="°C"),
        number("local_temperature", 5, unit="°C"),
        {
            "type": "enum",
            "name": "system_mode",
            "property": "system_mode",
            "access": ALL,
            "values": ["off", "auto", "heat"],
        },
    ],
}


def listed(ieee: str, name: str, *exposes: Exposed, **changes: JsonValue) -> dict[str, JsonValue]:
    """A device in the list."""
    return {
        "ieee_address": ieee,
        "type": "Router",
        "friendly_name": name,
        "supported": True,
        "disabled": False,
        "definition": {
            "model": "TS011F",
            "vendor": "Somebody",
            "description": "A thing",
            "exposes": [*exposes, number("linkquality", unit="lqi")],
            "options": [],
        },
        "power_source": "Mains (single phase)",
        "software_build_id": "1.0.5",
        "interview_completed": True,
        **changes,
    }


COORDINATOR: dict[str, JsonValue] = {
    "ieee_address": "0x00124b0000000000",
    "type": "Coordinator",
    "friendly_name": "Coordinator",
    "supported": True,
    "definition": None,
}
