"""Who may come in at the operator's door, by the kernel's word.

root and the agent's own user may everything. Beyond them two Unix groups may be let in: one may look, the
other may have things done as well. What a process belongs to is told by the kernel when it connects
(SO_PEERCRED and SO_PEERGROUPS of unix(7)), not by the process.

So that members can reach the socket and nobody else can, the groups are put on its access list and on that
of its folder (acl(5)): an owner may name there any group, while chown(2) asks him to be a member.
"""

import errno
import os
import socket
import struct
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edgeagent.adapters.admin.route import Role
from edgeagent.errors import ConfigurationError

_UCRED: Final = struct.Struct("3i")  # pid, uid, gid of unix(7)
_SO_PEERGROUPS: Final = 59  # asm-generic/socket.h; Python does not name it
_MOST_GROUPS: Final = 1024  # bytes, four a group: what Python asks for at most

# The kernel's form of an access list (linux/posix_acl_xattr.h): a version, then tag, permissions, id.
_ACL: Final = "system.posix_acl_access"
_VERSION: Final = struct.pack("<I", 2)
_ENTRY: Final = struct.Struct("<HHI")
_OWNER, _OWNING_GROUP, _GROUP, _MASK, _OTHERS = 0x01, 0x04, 0x08, 0x10, 0x20
_NOBODY: Final = 0xFFFFFFFF
_READ_WRITE: Final = 6
_ALL: Final = 7
_PASS: Final = 1
_ABSENT: Final = frozenset({errno.ENODATA, errno.ENOTSUP, errno.ENOENT})


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end of a connection.

    Attributes:
        uid: the user's number; -1 where the kernel does not tell.
        groups: the numbers of the groups.
    """

    uid: int
    groups: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Access:
    """Who may what.

    Attributes:
        view: the number of the group that may look; None for none.
        operate: the number of the group that may have things done as well; None for none.
    """

    view: int | None = None
    operate: int | None = None

    @property
    def groups(self) -> list[int]:
        """The groups that are let in, rising."""
        return sorted({group for group in (self.view, self.operate) if group is not None})

    def allows(self, peer: Peer, role: Role) -> bool:
        """Whether somebody may what needs a role."""
        if peer.uid in {0, os.geteuid()}:
            return True
        wanted = {self.operate} if role is Role.OPERATE else {self.view, self.operate}
        return not peer.groups.isdisjoint(wanted - {None})


def peer_of(channel: socket.socket) -> Peer:
    """Who has connected, as the kernel noted it then."""
    _, uid, gid = _UCRED.unpack(channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    groups = array("I")
    try:
        groups.frombytes(channel.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _MOST_GROUPS))
    except OSError as why:
        # More groups than can be asked for: only the first counts then.
        if why.errno != errno.ERANGE:
            raise
    return Peer(uid, frozenset({gid, *groups}))


def let_in(path: Path, groups: Iterable[int]) -> None:
    """Put groups, and nobody else, on the access lists of a socket and of its folder.

    Raises:
        ConfigurationError: the file system keeps no such lists.
    """
    allowed = list(groups)
    try:
        if allowed:
            os.setxattr(path, _ACL, _access_list(allowed, owner=_READ_WRITE, group=_READ_WRITE))
            os.setxattr(path.parent, _ACL, _access_list(allowed, owner=_ALL, group=_PASS))
        else:
            _forget_list(path.parent)
    except OSError as why:
        raise ConfigurationError(
            f"[hub] run_dir: view_group and operate_group cannot be let in at {path}: {why.strerror}"
        ) from why


def _forget_list(folder: Path) -> None:
    """Take back what an earlier start has let in."""
    try:
        os.removexattr(folder, _ACL)
    except OSError as why:
        if why.errno not in _ABSENT:
            raise


def _access_list(groups: Iterable[int], *, owner: int, group: int) -> bytes:
    entries = [
        (_OWNER, owner, _NOBODY),
        (_OWNING_GROUP, 0, _NOBODY),
        *((_GROUP, group, number) for number in groups),
        (_MASK, group, _NOBODY),
        (_OTHERS, 0, _NOBODY),
    ]
    return _VERSION + b"".join(_ENTRY.pack(*entry) for entry in entries)
