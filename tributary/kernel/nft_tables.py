"""Watches nft tables: ``nft flush ruleset``, which a reload of nftables.service on Debian runs, removes
those of all programs.

The kernel reports the end of each transaction and the process that made it (linux/netfilter/nf_tables.h,
NFT_MSG_NEWGEN). It reports each changed element as well: a socket filter drops those messages.
"""

import errno
import os
import struct
from collections.abc import Iterable

from tributary.kernel import bpf
from tributary.kernel.bpf import JUMP_EQUAL, LOAD_HALF, RETURN, Instruction
from tributary.kernel.netlink import Malformed, Watch, attribute, attributes, kept, messages
from tributary.settings.errors import CommandError, Exit

_NETFILTER, _GROUP = 12, 7  # NETLINK_NETFILTER, NFNLGRP_NFTABLES
_SUBSYSTEM = 10 << 8  # NFNL_SUBSYS_NFTABLES
_GET_TABLE, _NEW_GENERATION = _SUBSYSTEM | 1, _SUBSYSTEM | 15
_TABLE_NAME, _TABLE_HANDLE, _PROCESS = 1, 4, 2  # NFTA_TABLE_NAME, NFTA_TABLE_HANDLE, NFTA_GEN_PROC_PID
_FAMILIES = {"inet": 1, "netdev": 5}  # NFPROTO_INET, NFPROTO_NETDEV
_HEADER = struct.Struct("=BBH")  # struct nfgenmsg
_KIND = 4  # where a message has its type, in the byte order of the machine


class NftTables(Watch):
    """Watches tables, named as nft(8) names them; a context manager."""

    def __init__(self) -> None:
        kind = int.from_bytes(struct.pack("=H", _NEW_GENERATION), "big")
        program = (
            Instruction(LOAD_HALF, _KIND),
            Instruction(JUMP_EQUAL, kind, 0, 1),
            Instruction(RETURN, 0xFFFF),
            Instruction(RETURN, 0),
        )
        super().__init__(_NETFILTER, _GROUP, program=bpf.pack(program))
        self._handles: dict[str, int | None] = {}

    def watch(self, tables: Iterable[str]) -> None:
        self._handles = {table: _handle(table) for table in tables}

    def lost(self) -> bool:
        """Whether another program has removed one of them since. Raises CommandError, exit 71."""
        return self.has_changes() and any(_handle(each) != handle for each, handle in self._handles.items())

    def _matters(self, data: bytes) -> bool:
        return any(_process(message.body) != os.getpid() for message in messages(data))


def _process(body: bytes) -> int | None:
    """The process of the transaction; in a container the number may differ from the process's own."""
    try:
        (number,) = struct.unpack("!I", dict(attributes(body, _HEADER.size))[_PROCESS])
    except (Malformed, KeyError, struct.error):
        return None
    return int(number)


def _handle(table: str) -> int | None:
    """The kernel's handle of a table, None without a table of that name."""
    family, name = table.split()
    request = _HEADER.pack(_FAMILIES[family], 0, 0) + attribute(_TABLE_NAME, name.encode() + b"\0")
    try:
        answer = kept(_NETFILTER).ask(_GET_TABLE, request)
        (number,) = struct.unpack("!Q", dict(attributes(answer.body, _HEADER.size))[_TABLE_HANDLE])
        return int(number)
    except (OSError, Malformed, KeyError, struct.error) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOENT:
            return None
        raise CommandError(Exit.SYSTEM, f"cannot look for the nft table {table}: {error}") from error
