"""Endpoints and limits of the kernel's path manager as generic netlink; linux/mptcp_pm.h."""

import struct
from collections.abc import Mapping
from functools import cache
from ipaddress import ip_address

from tributary.kernel.netlink import ACK, GENERIC, Malformed, Message, attribute, attributes, family, kept
from tributary.kernel.state import FAMILIES, Endpoint, Flags, Limits
from tributary.mptcp.four_tuple import FourTuple

_HEADER = struct.Struct("=BBxx")
_VERSION = 1
_NESTED = 0x8000


ADD, DELETE, GET, SET_LIMITS, GET_LIMITS, SET_FLAGS = 1, 2, 3, 5, 6, 7
"""Commands, enum mptcp_pm_cmd."""
_ADDRESS, _ACCEPTED, _SUBFLOWS, _TOKEN, _REMOTE = 1, 2, 3, 4, 6  # MPTCP_PM_ATTR_*
_FAMILY, _ID, _ADDRESS4, _ADDRESS6, _PORT, _FLAGS, _INTERFACE = range(1, 8)  # MPTCP_PM_ADDR_ATTR_*


@cache
def family_number() -> int:
    """That of the kernel's family; raises CommandError, exit 69, if the kernel has no MPTCP."""
    return family(kept(GENERIC), "mptcp_pm")[0]


def send(body: bytes) -> None:
    """Has the kernel do what ``body`` says; raises OSError."""
    kept(GENERIC).ask(family_number(), body, ACK)


def question(command: int) -> bytes:
    """The body that requests all endpoints, or the limits."""
    return _HEADER.pack(command, _VERSION)


def endpoint(message: Message) -> tuple[int, Endpoint]:
    """An endpoint and its id; raises Malformed."""
    found = dict(attributes(_attributes(message).get(_ADDRESS, b"")))
    try:
        address = found.get(_ADDRESS4) or found[_ADDRESS6]
        return found[_ID][0], Endpoint(ip_address(address), _signed(found, _INTERFACE), Flags(_signed(found, _FLAGS)))
    except (KeyError, IndexError, ValueError, struct.error) as error:
        raise Malformed(f"no endpoint: {error!r}") from error


def limits(message: Message) -> Limits:
    """Raises Malformed."""
    found = _attributes(message)
    try:
        return Limits(_signed(found, _SUBFLOWS), _signed(found, _ACCEPTED))
    except struct.error as error:
        raise Malformed(f"no limits: {error!r}") from error


def _attributes(message: Message) -> dict[int, bytes]:
    return dict(attributes(message.body, _HEADER.size))


def _signed(found: Mapping[int, bytes], kind: int) -> int:
    """A number of four bytes, 0 if it is missing."""
    return int(struct.unpack("=i", found.get(kind, bytes(4)))[0])


def endpoint_body(command: int, number: int, endpoint: Endpoint) -> bytes:
    """Adds, changes or deletes an endpoint; the kernel deletes by id."""
    address = endpoint.address
    nested = (
        attribute(_FAMILY, struct.pack("=H", FAMILIES[address.version]))
        + attribute(_ID, bytes([number]))
        + attribute(_ADDRESS4 if address.version == 4 else _ADDRESS6, address.packed)
        + attribute(_FLAGS, struct.pack("=I", endpoint.flags))
        + attribute(_INTERFACE, struct.pack("=i", endpoint.interface))
    )
    return question(command) + attribute(_ADDRESS | _NESTED, nested)


def limits_body(limits: Limits) -> bytes:
    """Sets both limits."""
    return (
        question(SET_LIMITS)
        + attribute(_ACCEPTED, struct.pack("=I", limits.accepted_addresses))
        + attribute(_SUBFLOWS, struct.pack("=I", limits.subflows))
    )


def priority_body(token: int, subflow: FourTuple, backup: bool) -> bytes:
    """Makes one subflow of one session a backup, or no backup, for both ends: it sends MP_PRIO.

    The session must have begun with the path manager in user space (net/mptcp/pm_userspace.c, ..._set_flags()).
    """
    flags = struct.pack("=I", Flags.BACKUP if backup else 0)
    return (
        question(SET_FLAGS)
        + attribute(_TOKEN, struct.pack("=I", token))
        + attribute(_ADDRESS | _NESTED, _end(subflow.local, subflow.local_port) + attribute(_FLAGS, flags))
        + attribute(_REMOTE | _NESTED, _end(subflow.remote, subflow.remote_port))
    )


def _end(text: str, port: int) -> bytes:
    """An address and its port, which has this host's byte order here."""
    address = ip_address(text)
    return (
        attribute(_FAMILY, struct.pack("=H", FAMILIES[address.version]))
        + attribute(_ADDRESS4 if address.version == 4 else _ADDRESS6, address.packed)
        + attribute(_PORT, struct.pack("=H", port))
    )
