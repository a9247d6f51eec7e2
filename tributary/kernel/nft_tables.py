"""Whether nft tables are still there: ``nft flush ruleset``, as of nftables.service, removes those of all programs."""

import errno
import struct
from collections.abc import Mapping

from tributary.kernel.netlink import Malformed, attribute, attributes, kept
from tributary.settings.errors import CommandError, Exit

_NETFILTER = 12  # NETLINK_NETFILTER
_GET_TABLE = 10 << 8 | 1  # NFNL_SUBSYS_NFTABLES, NFT_MSG_GETTABLE
_NAME, _HANDLE = 1, 4  # NFTA_TABLE_NAME, NFTA_TABLE_HANDLE
_FAMILIES = {"inet": 1, "netdev": 5}  # NFPROTO_INET, NFPROTO_NETDEV
_HEADER = struct.Struct("=BBH")  # struct nfgenmsg


def handle(table: str) -> int | None:
    """The number of a table such as ``inet a``, which no other ever has; None without one. Raises CommandError, 71."""
    family, name = table.split()
    request = _HEADER.pack(_FAMILIES[family], 0, 0) + attribute(_NAME, name.encode() + b"\0")
    try:
        answer = kept(_NETFILTER).ask(_GET_TABLE, request)
        (number,) = struct.unpack("!Q", dict(attributes(answer.body, _HEADER.size))[_HANDLE])
        return int(number)
    except (OSError, Malformed, KeyError, struct.error) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOENT:
            return None
        raise CommandError(Exit.SYSTEM, f"cannot look for the nft table {table}: {error}") from error


def are_lost(known: Mapping[str, int | None]) -> bool:
    """Whether one of the tables is not there, or is not the one that had its ``known`` number."""
    return any((number := handle(table)) is None or number != before for table, before in known.items())
