"""Licences of what goes in, and the package's copyright file (machine-readable, Debian's DEP 5)."""

import re
from typing import Final

from deb.vendored import Vendored
from deb.wheels import BuildError, Distribution

_LEGACY: Final = {
    "Apache 2.0": "Apache-2.0",
    "Apache-2.0": "Apache-2.0",
    "PSF-2.0": "PSF-2.0",
    "MIT": "MIT",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
}
"""What metadata said before there were licence expressions (PEP 639), as SPDX has it."""

_HEAD: Final = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: edgeagent
Comment:
 The distributions below lie unchanged in /opt/edgeagent/lib, without their tests and documents. What was
 compiled into them is listed, with its licences, in /usr/share/doc/edgeagent/sbom.cdx.json.

Files: *
Copyright: the edgeagent authors
License: Apache-2.0
"""
_APACHE: Final = """\
License: Apache-2.0
 On Debian systems, the text of the Apache License, version 2.0, is in /usr/share/common-licenses/Apache-2.0.
"""


def expression(of: Distribution) -> str:
    """Its licence as an SPDX expression.

    Raises:
        BuildError: its metadata do not say.
    """
    stated = of.metadata["License-Expression"]
    if stated is not None:
        return str(stated)
    said = [str(of.metadata["License"] or ""), *map(str, of.metadata.get_all("Classifier", []))]
    for each in said:
        if each in _LEGACY:
            return _LEGACY[each]
    raise BuildError(f"{of.name}: its metadata name no licence: {said}")


def copyright_file(found: list[Distribution], borrowed: list[Vendored]) -> str:
    """The text of ``/usr/share/doc/edgeagent/copyright``.

    Raises:
        BuildError: a distribution names no licence, or brings no text of it.
    """
    return "\n".join([_HEAD, *map(_stanza, found), *map(_borrowed, borrowed), _APACHE])


def _stanza(of: Distribution) -> str:
    if not of.licences:
        raise BuildError(f"{of.name}: its wheel has no text of its licence")
    files = " ".join(
        f"opt/edgeagent/lib/{top}" + ("" if "." in top and not top.endswith("-info") else "/*")
        for top in sorted(of.tops)
    )
    texts = [(name, _brief(text)) for name, text in sorted(of.licences.items())]
    holders = _holders([text for _, text in texts]) or [f"the authors of {of.name}"]
    body = "\n .\n".join(f" {name}:\n .\n{_indented(text)}" for name, text in texts)
    # Each text has the names of its holders in it: a licence of its own, by Debian's form.
    return (
        f"Files: {files}\nCopyright: {_joined(holders)}\nLicense: {of.name}-{of.version}\n"
        f" {of.name} {of.version}: {expression(of)}\n .\n{body}\n"
    )


def _borrowed(library: Vendored) -> str:
    holders = _holders([library.text]) or [f"the authors of {library.name}"]
    return (
        f"Files: opt/edgeagent/lib/edgeagent/{library.folder}/*\nCopyright: {_joined(holders)}\n"
        f"License: {library.package}-{library.version}\n"
        f" {library.name} {library.version}: {library.licence}\n .\n"
        f"{_indented(library.text)}\n"
    )


def _brief(text: str) -> str:
    """The text, or where Debian has it."""
    if "Apache License" in text and "TERMS AND CONDITIONS FOR USE" in text:
        return "The Apache License, version 2.0: /usr/share/common-licenses/Apache-2.0"
    return text


def _holders(texts: list[str]) -> list[str]:
    lines = [line.strip(" #*-\t") for text in texts for line in text.splitlines()]
    found = [line for line in lines if re.match(r"(?i)copyright (\(c\)|©|\d{4})|©", line)]
    return list(dict.fromkeys(re.sub(r"(?i)^copyright\s*", "", line) for line in found))


def _joined(lines: list[str]) -> str:
    return "\n ".join(lines)


def _indented(text: str) -> str:
    lines = [line.rstrip().replace("\f", "") for line in text.strip().splitlines()]
    return "\n".join(f" {line}" if line else " ." for line in lines)
