"""Who is at the other end of a loopback connection, by the kernel's word.

TCP knows no SO_PEERCRED; but both ends of such a connection are sockets of this machine, and the kernel lists
them with the user who made each (proc(5), /proc/net/tcp and tcp6). Only a socket that somebody still holds
counts: one that is merely being wound up is listed as root's.
"""

import struct
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final

_TABLES: Final = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
_LOCAL, _REMOTE, _UID, _INODE = 1, 2, 7, 9
_MAPPED: Final = b"\0" * 10 + b"\xff" * 2
Place = tuple[str, int]
"""Address and port."""


def user_of(caller: Place, own: Place) -> int | None:
    """The number of the user whose socket is connected from ``caller`` to ``own``; None where none is."""
    wanted = {(caller_end, own_end) for caller_end, own_end in zip(_ends(caller), _ends(own), strict=False)}
    for table in _TABLES:
        try:
            lines = table.read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if (fields[_LOCAL], fields[_REMOTE]) in wanted and fields[_INODE] != "0":
                return int(fields[_UID])
    return None


def _ends(place: Place) -> list[str]:
    """How the tables write a place: in words of the machine's order; one of version 4 also as mapped."""
    address, port = ip_address(place[0]), place[1]
    forms = [address.packed]
    if isinstance(address, IPv4Address):
        forms.append(IPv6Address(_MAPPED + address.packed).packed)
    words = [[f"{word:08X}" for (word,) in struct.iter_unpack("=I", form)] for form in forms]
    return [f"{''.join(each)}:{port:04X}" for each in words]
