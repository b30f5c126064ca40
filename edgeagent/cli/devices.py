"""``edgeagent devices list | show | admit | forget``."""

import argparse

from edgeagent.cli.asking import agent_of
from edgeagent.cli.parameters import parameter
from edgeagent.cli.printing import safe, show_json, table
from edgeagent.cli.times import Times, ago
from edgeagent.cli.words import Nouns
from edgeagent.contracts.firmware import Fetches
from edgeagent.contracts.reports.devices import (
    AdmitRequest,
    DeviceReport,
    DevicesReport,
    ForgottenReport,
    UpdatesReport,
)
from edgeagent.ids import device_id
from edgeagent.ids import label as checked_label


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    devices = nouns.add_parser("devices", help="the venue's devices")
    verbs = devices.add_subparsers(required=True, metavar="VERB")
    verbs.add_parser("list", help="admitted devices, and those that wait").set_defaults(handler=_list)
    show = verbs.add_parser("show", help="one device and its readings")
    show.add_argument("device", metavar="DEVICE")
    show.set_defaults(handler=_show)
    admit = verbs.add_parser("admit", help="take a device in")
    admit.add_argument("device", metavar="DEVICE")
    admit.add_argument("--label", help="what people call it")
    admit.add_argument("--profile", help="its family's profile, if it has not shown itself")
    admit.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the profile"
    )
    admit.set_defaults(handler=_admit)
    forget = verbs.add_parser("forget", help="let a device go")
    forget.add_argument("device", metavar="DEVICE")
    forget.set_defaults(handler=_forget)


def _list(arguments: argparse.Namespace) -> int:
    report = agent_of(arguments).get("/v1/devices", DevicesReport)
    if arguments.json:
        show_json(report)
        return 0
    if not report.devices:
        print("no device is admitted")
    else:
        table(
            ("device", "label", "profile", "online", "heard", "actions"),
            [
                (
                    device.device,
                    device.label,
                    device.profile,
                    _online(device.online),
                    ago(device.heard),
                    " ".join(device.actions),
                )
                for device in report.devices
            ],
        )
    if report.proposals:
        print()
        table(
            ("waiting", "label", "profile", "model", "firmware"),
            [
                (proposal.device, proposal.label, proposal.profile, proposal.model, proposal.firmware)
                for proposal in report.proposals
            ],
        )
        print("\n  next: edgeagent devices admit DEVICE")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    agent = agent_of(arguments)
    device = agent.get(f"/v1/devices/{device_id(arguments.device)}", DeviceReport)
    _print_device(device, agent.times, as_json=arguments.json)
    return 0


def _admit(arguments: argparse.Namespace) -> int:
    request = AdmitRequest(
        device=device_id(arguments.device),
        label=None if arguments.label is None else checked_label(arguments.label),
        profile=arguments.profile,
        parameters=dict(parameter(text) for text in arguments.set),
    )
    agent = agent_of(arguments)
    device = agent.post("/v1/devices", request, DeviceReport)
    _print_device(device, agent.times, as_json=arguments.json)
    return 0


def _forget(arguments: argparse.Namespace) -> int:
    gone = agent_of(arguments).delete(f"/v1/devices/{device_id(arguments.device)}", ForgottenReport)
    if arguments.json:
        show_json(gone)
    else:
        print(f"{gone.device} is forgotten")
    return 0


def _print_device(device: DeviceReport, times: Times, *, as_json: bool) -> None:
    if as_json:
        show_json(device)
        return
    print(f"{device.device}  {safe(device.label)}  ({device.profile}, {_online(device.online)})")
    print(f"state version {device.version}, etag {device.etag}; heard {ago(device.heard)}")
    print(f"actions: {' '.join(device.actions) or 'none'}")
    print(f"updates: {_updates(device.updates)}")
    table(
        ("reading", "value", "unit", "version", "changed", "live"),
        [
            (
                name,
                _value(reading.value),
                reading.unit,
                "" if reading.version is None else str(reading.version),
                "" if reading.at is None else times.since(reading.at),
                {True: "yes", False: "no", None: ""}[reading.live],
            )
            for name, reading in device.readings.items()
        ],
    )


def _value(value: bool | float | str) -> str:  # noqa: FBT001 - what a device has told
    """A reading as a command writes it: ``true``, ``21.5``, ``eco``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _updates(updates: UpdatesReport | None) -> str:
    """How its firmware is updated, in a line."""
    if updates is None:
        return "none over the air"
    who = "its bridge fetches" if updates.fetches is Fetches.BRIDGE else f"it fetches over {updates.fetches}"
    back = "goes back" if updates.reversible else "does not go back"
    stop = "can be called off" if updates.cancellable else "cannot be called off"
    busy = "" if updates.occupies is None else f", occupies its {updates.occupies}"
    return f"{who}, {back}, {stop}{busy}; {updates.running} tells the version"


def _online(online: bool | None) -> str:  # noqa: FBT001 - a state, not a switch
    return {True: "online", False: "offline", None: "unknown"}[online]
