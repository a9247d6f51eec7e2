"""What nftables itself says of new elements in the throttler's maps, on a netlink socket (nft monitor(8) in small).

Messages are those of linux/netfilter/nfnetlink.h and nf_tables.h; elements of a transaction are told after it.
"""

from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address

from tributary.kernel.netlink import Malformed, Netlink, attributes, messages

_NETLINK_NETFILTER, _GROUP_NFTABLES = 12, 7  # NFNLGRP_NFTABLES
_NEW_ELEMENTS = 10 << 8 | 12  # NFNL_SUBSYS_NFTABLES, NFT_MSG_NEWSETELEM
_INET = 1  # NFPROTO_INET
_LIST_TABLE, _LIST_ELEMENTS, _LIST_ELEMENT, _ELEMENT_KEY, _DATA_VALUE = 1, 3, 1, 1, 1
_GENERIC = 4  # struct nfgenmsg
_TABLE = b"throttler\0"
_KEY_LENGTHS = {16: 4, 40: 16}  # of a 4-tuple with each part padded to four bytes, and of an address in it

FourTuple = tuple[str, int, str, int]
"""Source, its port, destination, its port, as in the map's key."""


def notifications() -> Netlink:
    """A socket that gets the notifications of this network namespace, with room for 64 MB of them."""
    listener = Netlink(_NETLINK_NETFILTER)
    listener.listen(_GROUP_NFTABLES, 64 << 20)
    return listener


def new_subflows(datagram: bytes) -> Iterator[FourTuple]:
    """The 4-tuples that came into a map of the table ``inet throttler``, by its key and not by its name."""
    with suppress(Malformed):  # what is cut off at the end
        for message in messages(datagram):
            if message.kind == _NEW_ELEMENTS and message.body[0] == _INET:
                given = dict(attributes(message.body, _GENERIC))
                if given.get(_LIST_TABLE) == _TABLE:
                    yield from _keys(given.get(_LIST_ELEMENTS, b""))


def _keys(elements: bytes) -> Iterator[FourTuple]:
    for kind, element in attributes(elements):
        key = dict(attributes(dict(attributes(element)).get(_ELEMENT_KEY, b""))).get(_DATA_VALUE, b"")
        if kind == _LIST_ELEMENT and len(key) in _KEY_LENGTHS:
            yield _four_tuple(key, _KEY_LENGTHS[len(key)])


def _four_tuple(key: bytes, address: int) -> FourTuple:
    source, source_port = key[:address], key[address : address + 2]
    destination, destination_port = key[address + 4 : 2 * address + 4], key[2 * address + 4 : 2 * address + 6]
    return (
        *(str(ip_address(source)), int.from_bytes(source_port)),
        *(str(ip_address(destination)), int.from_bytes(destination_port)),
    )
