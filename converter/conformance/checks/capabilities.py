"""The Info TLV and the Supported TCP Extensions TLV (RFC 8803 sections 6.2.3, 6.2.4 and 7)."""

from .. import message
from ..message import Kind, Tlv
from ..rig import Rig, accepted
from ..verdict import Checks, Skip, require

CHECKS = Checks()
NEVER = (Kind.NO_OPERATION, Kind.MAXIMUM_SEGMENT_SIZE, Kind.WINDOW_SCALE, Kind.SACK, Kind.AUTHENTICATION)


def supported_field(rig: Rig) -> bytes:
    """The value of the Supported TCP Extensions TLV: two bytes Unassigned, then kinds and padding."""
    upstream = rig.ask(message.info())
    reply = accepted(upstream.reply())
    upstream.reset()
    require(Tlv.SUPPORTED_TCP_EXTENSIONS in reply.tlvs, "a Supported TCP Extensions TLV", reply)
    return reply.tlvs[Tlv.SUPPORTED_TCP_EXTENSIONS]


def supported(rig: Rig) -> bytes:
    """The kinds of TCP options that the converter says it supports."""
    return supported_field(rig)[2:].rstrip(b"\0")


@CHECKS.add("6.2.3")
def info_is_answered(rig: Rig) -> str:
    """An Info TLV is answered by a Supported TCP Extensions TLV."""
    return f"kinds {', '.join(map(str, supported(rig))) or 'none'}"


@CHECKS.add("6.2.4")
def supported_unassigned_is_zero(rig: Rig) -> str:
    """The Unassigned field of the Supported TCP Extensions TLV is zero."""
    field = supported_field(rig)
    require(not any(field[:2]), "0000", field[:2].hex())
    return "0000"


@CHECKS.add("6.2.4")
def supported_padding(rig: Rig) -> str:
    """The list of kinds is padded with zeros at its end, by fewer than four bytes."""
    kinds = supported_field(rig)[2:]
    listed = kinds.rstrip(b"\0")
    spare = len(kinds) - len(listed)
    # A list without a kind may be one word of Unassigned or take another of zeros.
    require(spare < message.WORD or (not listed and spare == message.WORD), "fewer than four zeros", kinds.hex())
    require(0 not in listed, "zeros at the end only", kinds.hex())
    return kinds.hex()


@CHECKS.add("6.2.4")
def supported_leaves_out(rig: Rig) -> str:
    """Kinds 1, 2, 3, 5 and 29 are not announced (sections 7.1, 7.2, 7.3, 7.7)."""
    listed = supported(rig)
    shown = ", ".join(map(str, listed))
    require(not any(kind in listed for kind in NEVER), "none of 1, 2, 3, 5, 29", shown)
    return shown


@CHECKS.add("7.5")
def supported_has_multipath(rig: Rig) -> str:
    """A converter that serves Multipath TCP announces kind 30."""
    if not rig.settings.mptcp:
        raise Skip("no --mptcp")
    listed = supported(rig)
    require(Kind.MULTIPATH in listed, "30", ", ".join(map(str, listed)))
    return ", ".join(map(str, listed))


def _list_and_connection(rig: Rig, step: int) -> str:
    """A message with Info and Connect, in this order by `step` 1, gets the list and reaches the server."""
    origin = rig.origin()
    tlvs = [message.info(), origin.connect()]
    reply = accepted(rig.ask(*tlvs[::step], data=b"data").reply())
    require(Tlv.SUPPORTED_TCP_EXTENSIONS in reply.tlvs, "a Supported TCP Extensions TLV", reply)
    origin.accept().expect(b"data", "the data at the server")
    return str(reply)


CHECKS.add_each(_list_and_connection, {
    "info-and-connect": ("6.2.2", "A message with Info and Connect gets the list and the connection.", 1),
    "connect-and-info": ("6.2.2", "The order of Info and Connect does not matter.", -1),
})  # fmt: skip
