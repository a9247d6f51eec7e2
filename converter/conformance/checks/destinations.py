"""Servers that cannot be reached or must not be (RFC 8803 section 6.2.8)."""

from .. import message
from ..message import Code
from ..rig import Rig
from ..verdict import Checks, Skip, require
from .refusals import refused

CHECKS = Checks()
DISCARD = 9  # a port


def _connection_reset(rig: Rig, options: bytes, data: bytes) -> str:
    origin = rig.origin(listening=False)
    error = refused(rig, rig.request(origin.connect(options)), Code.CONNECTION_RESET, data=data)
    require(not any(error.value), "a value of zero", error)
    return str(error)


CHECKS.add_each(_connection_reset, {
    "connection-reset": (
        "6.2.8", "A server that answers with a reset gives error 96 with the value zero.", b"", b""),
    "connection-reset-extended": (
        "6.2.8", "The same to an Extended Connect, with data behind it: error 96, nothing else.",
        message.Option(message.Kind.MAXIMUM_SEGMENT_SIZE, b"\x05\xb4").encode(), b"never to arrive"),
})  # fmt: skip


@CHECKS.add("4.2")
def refused_port_is_tried_again(rig: Rig) -> str:
    """A port that refused is tried anew at the next request, and then serves."""
    origin = rig.origin(listening=False)
    refused(rig, rig.request(origin.connect()), Code.CONNECTION_RESET)
    origin.listen()
    rig.connected(origin=origin)
    return "error 96, then a connection"


@CHECKS.add("6.2.8")
def destination_unreachable(rig: Rig) -> str:
    """An ICMP hard error gives error 97 with the ICMP code as its value."""
    unreachable = rig.settings.unreachable
    if unreachable is None:
        raise Skip("no --unreachable")
    error = refused(rig, rig.request(message.connect(unreachable.address, DISCARD)), Code.DESTINATION_UNREACHABLE)
    if unreachable.code is not None:
        require(error.value[0] == unreachable.code, f"the ICMP code {unreachable.code}", error)
    require(not any(error.value[1:]), "zeros behind the ICMP code", error)
    return str(error)


@CHECKS.add("6.2.8")
def forbidden_destination(rig: Rig) -> str:
    """An address that policy forbids gives error 32 with the value zero."""
    if rig.settings.forbidden is None:
        raise Skip("no --forbidden")
    error = refused(rig, rig.request(message.connect(rig.settings.forbidden, DISCARD)), Code.NOT_AUTHORIZED)
    require(not any(error.value), "a value of zero", error)
    return str(error)
