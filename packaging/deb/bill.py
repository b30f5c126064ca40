"""The bill of materials, CycloneDX 1.6 in JSON: what the package holds, and what was compiled into it."""

import json
import re
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from deb.licences import expression
from deb.vendored import Vendored
from deb.wheels import Distribution, normalised

_ROOT: Final = "edgeagent"
_REQUIRED: Final = re.compile(r"[A-Za-z0-9._-]+")


def bill(found: list[Distribution], borrowed: list[Vendored], name: str, moment: datetime) -> bytes:
    """The bill of one package, the same bytes for the same content and moment.

    Args:
        found: what is in it besides edgeagent.
        borrowed: what lies in edgeagent's own tree.
        name: ``edgeagent@VERSION?arch=ARCHITECTURE``.
        moment: when it was made, for those who read it.
    """
    components = [_component(each) for each in found] + [_vendored(each) for each in borrowed]
    depends = [{"ref": _reference(each), "dependsOn": _required(each, found)} for each in found]
    whole: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": "",
        "version": 1,
        "metadata": {
            "timestamp": moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": _ROOT,
                "name": "edgeagent",
                "version": name.partition("@")[2].partition("?")[0],
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "purl": f"pkg:generic/{name}",
            },
        },
        "components": components,
        "dependencies": [
            {"ref": _ROOT, "dependsOn": sorted(each["bom-ref"] for each in components)},
            *depends,
        ],
    }
    content = json.dumps(whole, sort_keys=True)
    whole["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, content)}"
    return json.dumps(whole, indent=1).encode() + b"\n"


def _reference(of: Distribution) -> str:
    return f"pkg:pypi/{of.name}@{of.version}"


def _required(of: Distribution, found: list[Distribution]) -> list[str]:
    asked = {
        normalised(match.group())
        for text in of.metadata.get_all("Requires-Dist", [])
        if "extra ==" not in str(text) and (match := _REQUIRED.match(str(text)))
    }
    return sorted(_reference(each) for each in found if each.name in asked)


def _component(of: Distribution) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": _reference(of),
        "name": of.name,
        "version": of.version,
        "licenses": [{"expression": expression(of)}],
        "purl": _reference(of),
        "properties": [
            {"name": "edgeagent:wheel", "value": f"{name} sha256:{digest}"}
            for name, digest in sorted(of.wheels.items())
        ],
    }
    inner = _compiled_in(of)
    return component | {"components": inner} if inner else component


def _vendored(library: Vendored) -> dict[str, Any]:
    reference = f"pkg:npm/{library.package}@{library.version}"
    return {
        "type": "library",
        "bom-ref": reference,
        "name": library.name,
        "version": library.version,
        "licenses": [{"expression": library.licence}],
        "purl": reference,
    }


def _compiled_in(of: Distribution) -> list[dict[str, Any]]:
    """What the bills of its wheels name, each once, with references that are unique in the whole."""
    parts: dict[str, dict[str, Any]] = {}
    for each in of.bills:
        for part in _parts(each):
            purl = str(part.get("purl", ""))
            if not purl or "download_url=file" in purl:
                continue  # its own workshop's
            kept = {
                key: part[key]
                for key in ("type", "name", "version", "hashes", "licenses", "purl")
                if key in part
            }
            parts.setdefault(purl, kept | {"bom-ref": f"{_reference(of)}#{purl}"})
    return [parts[purl] for purl in sorted(parts)]


def _parts(whole: Mapping[str, object]) -> Iterable[Mapping[str, object]]:
    listed = whole.get("components", [])
    return listed if isinstance(listed, list) else []
