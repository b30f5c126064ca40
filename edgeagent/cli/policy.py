"""``edgeagent policy show | explain``: what the policy in force says."""

import argparse
from urllib.parse import quote

from edgeagent.cli.arguments import action_of
from edgeagent.cli.asking import agent_of
from edgeagent.cli.printing import safe, show_json, table
from edgeagent.cli.words import Nouns
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.policy import ApprovalRule
from edgeagent.contracts.reports.policy import ActionReport, BansShown, PolicyShown
from edgeagent.contracts.scalars import duration_text
from edgeagent.ids import device_id


def add_to(nouns: Nouns) -> None:
    """Add the words of this noun."""
    policy = nouns.add_parser("policy", help="who may do what, by the policy in force")
    verbs = policy.add_subparsers(required=True, metavar="VERB")
    verbs.add_parser("show", help="all of it").set_defaults(handler=_show)
    explain = verbs.add_parser("explain", help="what stands about an action")
    explain.add_argument("action", metavar="ACTION", help=", ".join(ActionName))
    explain.add_argument("device", metavar="DEVICE", nargs="?", help="on this device; on any if absent")
    explain.set_defaults(handler=_explain)


def _show(arguments: argparse.Namespace) -> int:
    agent = agent_of(arguments)
    policy = agent.get("/v1/policy", PolicyShown)
    if arguments.json:
        show_json(policy)
        return 0
    over = ", which is over" if policy.expired else ""
    print(f"version   {policy.version}, issued {agent.times.since(policy.issued_at)}")
    print(f"good till {agent.times.by(policy.expires_at)}{over}")
    for signer in policy.signers:
        print(f"signed by {signer}")
    print()
    table(
        ("role", "may sign", "holders", "actions", "devices"),
        [
            (name, role.kind, _names(role.holders), _names(role.actions), _names(role.devices))
            for name, role in policy.roles.items()
        ],
    )
    print()
    table(
        ("action", "tier", "confirmed", "valid for", "approvals", "stands"),
        [_row(action) for action in policy.actions],
    )
    for line in _ban_lines(policy.bans):
        print(line)
    for artifact, digests in policy.artifacts.items():
        print(f"may be installed: {artifact} with sha256 {', '.join(digests)}")
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    action = action_of(arguments.action)
    query = "" if arguments.device is None else f"?device={quote(device_id(arguments.device), safe='')}"
    told = agent_of(arguments).get(f"/v1/policy/actions/{action}{query}", ActionReport)
    if arguments.json:
        show_json(told)
        return 0
    where = "any device" if told.device is None else told.device
    print(f"{told.action} on {where}: {_standing(told)}")
    if told.tier is None or told.longest_validity is None:
        return 0
    print(f"tier       {told.tier}, done when {told.confirmation}")
    print(f"valid for  at most {duration_text(told.longest_validity)}")
    print(f"approvals  {_approvals(told.approvals)}")
    print(f"issued by  {_names(told.issuers)}")
    if told.approvals is not None:
        print(f"approved by {_names(told.approvers)}")
    print(f"typed here {'yes, with edgeagent send' if told.at_this_hub else 'no'}")
    return 0


def _row(action: ActionReport) -> tuple[str, ...]:
    valid = "" if action.longest_validity is None else duration_text(action.longest_validity)
    level = action.confirmation or ""
    return action.action, action.tier or "", level, valid, _approvals(action.approvals), _standing(action)


def _standing(action: ActionReport) -> str:
    if action.banned:
        return f"banned: {safe(action.banned)}"
    if not action.allowed:
        return "not allowed: the policy has no rule for it"
    return "free" if action.stopped is None else f"stopped by {action.stopped}"


def _approvals(rule: ApprovalRule | None) -> str:
    if rule is None:
        return "none"
    here = f", or one at the hub within {duration_text(rule.good_for)}" if rule.at_hub else ""
    return f"{rule.signatures} signed{here}"


def _names(names: list[str]) -> str:
    return ", ".join(names) or "nobody"


def _ban_lines(bans: BansShown) -> list[str]:
    listed = (("actions", bans.actions), ("devices", bans.devices), ("keys", bans.keys))
    return [f"banned {what}: {', '.join(names)}" for what, names in listed if names]
