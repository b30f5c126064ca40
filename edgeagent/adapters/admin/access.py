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
from pathlib import Path
from typing import Final

from edgeagent.adapters.admin.route import Role
from edgeagent.errors import ConfigurationError
from edgeagent.values import dataclass

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
    """Put groups, and nobody else, on the access list of a socket, and let them pass through its folder.

    Whoever could look into the folder before still can: the last health report is for others too.

    Raises:
        ConfigurationError: the file system keeps no such lists.
    """
    allowed = list(groups)
    try:
        if allowed:
            alone = _Rights(owner=_READ_WRITE, group=0, others=0)
            os.setxattr(path, _ACL, _access_list(allowed, _READ_WRITE, alone))
            os.setxattr(path.parent, _ACL, _access_list(allowed, _PASS, _rights_of(path.parent)))
        else:
            _forget_list(path.parent)
    except OSError as why:
        raise ConfigurationError(
            f"[hub] run_dir: view_group and operate_group cannot be let in at {path}: {why.strerror}"
        ) from why


@dataclass(frozen=True, slots=True)
class _Rights:
    """What a file's mode says without any list: bits as in chmod(1), one digit each."""

    owner: int
    group: int
    others: int


def _rights_of(folder: Path) -> _Rights:
    """What the mode of a folder says; where it has a list, the mode shows that list's mask for the group."""
    mode = folder.stat().st_mode
    group = mode >> 3 & 7
    for tag, rights, _ in _entries(folder):
        if tag == _OWNING_GROUP:
            group = rights
    return _Rights(owner=mode >> 6 & 7, group=group, others=mode & 7)


def _entries(folder: Path) -> list[tuple[int, int, int]]:
    try:
        listed = os.getxattr(folder, _ACL)
    except OSError as why:
        if why.errno not in _ABSENT:
            raise
        return []
    return list(_ENTRY.iter_unpack(listed[len(_VERSION) :]))


def _forget_list(folder: Path) -> None:
    """Take back what an earlier start has let in."""
    if not _entries(folder):
        return
    rights = _rights_of(folder)
    os.removexattr(folder, _ACL)
    folder.chmod(rights.owner << 6 | rights.group << 3 | rights.others)


def _access_list(groups: Iterable[int], right: int, mode: _Rights) -> bytes:
    entries = [
        (_OWNER, mode.owner, _NOBODY),
        (_OWNING_GROUP, mode.group, _NOBODY),
        *((_GROUP, right, number) for number in groups),
        (_MASK, mode.group | right, _NOBODY),
        (_OTHERS, mode.others, _NOBODY),
    ]
    return _VERSION + b"".join(_ENTRY.pack(*entry) for entry in entries)
