"""Messages that a converter must refuse (RFC 8803 sections 6.1, 6.2 and 9): mostly one table."""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address

from .. import message
from ..message import Code, Error, Tlv
from ..rig import Rig
from ..stream import Ending, Stream
from ..verdict import Checks, Level, Unmet, require

CHECKS = Checks()
UNKNOWN_TYPE = 200  # for private use (section 10.2.2)
BEHIND = b"user data behind the message"

Tlvs = Callable[[bytes], list[bytes]]
"""The TLVs of a message, from the Connect TLV of a server that could be reached."""


def refused(rig: Rig, request: bytes, *codes: Code, data: bytes = b"") -> Error:
    """Sends a request; one of these errors must come back, and then the connection's end."""
    upstream = rig.upstream()
    upstream.ask(request + data)
    error = error_of(upstream, *codes)
    upstream.ends(Ending.CLOSED, Ending.RESET, expected="the end of the connection")
    return error


def error_of(upstream: Stream, *codes: Code) -> Error:
    """The Error TLV that the converter replies with."""
    reply = upstream.reply()
    expected = " or ".join(f"error {code.value}" for code in codes)
    if reply.error is None or reply.error.code not in codes:
        raise Unmet(expected, str(reply))
    return reply.error


def _echoed(rig: Rig, code: Code, tlvs: Tlvs, offender: int = 0) -> str:
    """A message gets an Error TLV with an echo of it (figure 23); ``offender`` is the place of the TLV that is wrong.

    The RFC leaves open whether the echo has the fixed header, or is the TLV that is wrong: all three pass.
    """
    origin = rig.origin()
    made = tlvs(origin.connect())
    request = message.encode(*rig.authorization(), *made)
    error = refused(rig, request, code)
    require(error.value[:1] == b"\0", "a zero byte before the echo", error)
    forms = (request, request[message.WORD :], made[offender])
    require(error.value[1:] in forms, f"an echo of the message: {request.hex()}", error)
    origin.stays_untouched()
    return str(error)


def _options(field: bytes) -> Tlvs:
    return lambda connect: [message.tlv(Tlv.CONNECT, connect[2:] + field)]


def _address(address: message.Address) -> Tlvs:
    return lambda connect: [message.tlv(Tlv.CONNECT, connect[2:4] + message.mapped(address))]


MALFORMED, UNSUPPORTED = Code.MALFORMED_MESSAGE, Code.UNSUPPORTED_MESSAGE
CHECKS.add_each(_echoed, {
    "tlv-of-length-zero": ("6.2.1", "A TLV of length zero gets error 1 with the message echoed.",
        MALFORMED, lambda connect: [message.tlv(UNKNOWN_TYPE, b"", words=0), connect]),
    "tlv-past-the-end": ("9", "A TLV that is longer than what the Total Length leaves gets error 1, with echo.",
        MALFORMED, lambda connect: [message.tlv(Tlv.CONNECT, connect[2:], words=6)]),
    "second-tlv-past-the-end": ("9", "The same behind a good Connect: error 1, and no connection.",
        MALFORMED, lambda connect: [connect, message.tlv(Tlv.INFO, b"", words=2)], 1),
    "duplicate-connect": ("6.2.1", "Two Connect TLVs get error 1 with the message echoed.",
        MALFORMED, lambda connect: [connect, connect], 1),
    "duplicate-info": ("6.2.1", "Two Info TLVs get error 1 with the message echoed.",
        MALFORMED, lambda _: [message.info(), message.info()], 1),
    "connect-without-address": ("6.2.5", "A Connect of one word gets error 1 with the message echoed.",
        MALFORMED, lambda connect: [connect[:1] + b"\x01" + connect[2:4]]),
    "connect-too-short": ("6.2.5", "A Connect of four words gets error 1 with the message echoed.",
        MALFORMED, lambda connect: [connect[:1] + b"\x04" + connect[2:16]]),
    "info-too-long": ("6.2.2", "An Info of two words instead of one gets error 1 with the message echoed.",
        MALFORMED, lambda _: [message.tlv(Tlv.INFO, bytes(6))]),
    "option-of-length-zero": ("6.2.5", "A TCP option of length 0 in a Connect gets error 1, with echo.",
        MALFORMED, _options(b"\x04\x00\x00\x00")),
    "option-of-length-one": ("6.2.5", "A TCP option of length 1 in a Connect gets error 1, with echo.",
        MALFORMED, _options(b"\x04\x01\x00\x00")),
    "option-past-the-end": ("6.2.5", "A TCP option that is longer than the Connect gets error 1, with echo.",
        MALFORMED, _options(b"\x04\x05\x00\x00")),
    "reserved-type-zero": ("6.2.2", "A TLV of type 0 gets error 2 with the message echoed.",
        UNSUPPORTED, lambda connect: [message.tlv(0, bytes(2)), connect]),
    "unknown-type": ("6.2.8", "A TLV of an unknown type gets error 2 with the message echoed.",
        UNSUPPORTED, lambda connect: [message.tlv(UNKNOWN_TYPE, b"unknown"), connect]),
    "unknown-type-behind-connect": ("6.2.8", "The same behind a good Connect: error 2, and no connection.",
        UNSUPPORTED, lambda connect: [connect, message.tlv(UNKNOWN_TYPE, b"unknown")], 1),
})  # fmt: skip
CHECKS.add_each(_echoed, {
    f"connect-to-{what.lower().replace(' ', '-')}": (
        "6.2.5", f"A Connect to {address} ({what}) gets error 1 with the message echoed.",
        MALFORMED, _address(ip_address(address)))
    for what, address in {
        "IPv4 loopback": "127.0.0.1",
        "high IPv4 loopback": "127.255.255.254",
        "IPv4 multicast": "224.0.0.1",
        "high IPv4 multicast": "239.255.255.250",
        "IPv4 broadcast": "255.255.255.255",
        "IPv6 loopback": "::1",
        "IPv6 multicast": "ff02::1",
        "global IPv6 multicast": "ff0e::1",
    }.items()
})  # fmt: skip


@CHECKS.add("6.2.5", Level.SHOULD)
def connect_to_unspecified(rig: Rig) -> str:
    """A Connect to 0.0.0.0 or :: (which would reach the converter) gets an error."""
    errors = []
    for address in (IPv4Address(0), IPv6Address(0)):
        upstream = rig.ask(message.connect(address, 9))
        errors.append(error_of(upstream, *(code for code in Code if code < Code.RESOURCE_EXCEEDED)))
    return ", ".join(map(str, errors))


@CHECKS.add("6.2.8", Level.SHOULD)
def tlv_of_a_converter(rig: Rig) -> str:
    """A TLV that only converters send gets error 1 or 2."""
    origin = rig.origin()
    came = []
    for kind in (Tlv.EXTENDED_TCP_HEADER, Tlv.SUPPORTED_TCP_EXTENSIONS, Tlv.ERROR):
        request = rig.request(message.tlv(kind, bytes(2)), origin.connect())
        came.append(refused(rig, request, Code.MALFORMED_MESSAGE, Code.UNSUPPORTED_MESSAGE))
    origin.stays_untouched()
    return ", ".join(map(str, came))


@CHECKS.add("6.2.8")
def echo_of_the_longest_message(rig: Rig) -> str:
    """The echo of the longest message there can be fits into a well-formed reply."""
    origin = rig.origin()
    start = rig.request(origin.connect())
    unknown = message.tlv(UNKNOWN_TYPE, bytes(range(256)) * 4, words=0)
    room = message.LONGEST - len(start)
    unknown = bytes([UNKNOWN_TYPE, room // message.WORD]) + unknown[2:room]
    request = rig.request(origin.connect(), unknown)
    error = refused(rig, request, Code.UNSUPPORTED_MESSAGE)
    echo = error.value[1:]
    starts = any(form.startswith(echo) for form in (request, request[message.WORD :], unknown))
    require(starts and len(echo) >= message.WORD, "as much of the message as there is room for", error)
    return f"{len(echo)} of {len(request)} bytes echoed"


@CHECKS.add("6.1")
def total_length_zero(rig: Rig) -> str:
    """A Total Length of zero gets a reset, and no reply."""
    origin = rig.origin()
    upstream = rig.upstream()
    upstream.ask(message.encode(origin.connect(), words=0))
    ending = upstream.ends(Ending.RESET, expected="a reset")
    origin.stays_untouched()
    return ending


@CHECKS.add("6.1")
def wrong_magic(rig: Rig) -> str:
    """A wrong magic number is no Convert message: error 1, an end, or silence; no connection."""
    origin = rig.origin()
    upstream = rig.ask(origin.connect(), magic=0x2264)
    rest, ending = upstream.rest(max(1.0, rig.settings.quiet))
    if rest:
        error = message.decode(rest).error
        require(error is not None and error.code == Code.MALFORMED_MESSAGE, "error 1 or no reply", rest.hex())
    origin.stays_untouched()
    return f"{rest.hex() or 'no byte'}, then {ending}"


@CHECKS.add("6")
def not_convert_at_all(rig: Rig) -> str:
    """Bytes that are no Convert message reach no server and get no success."""
    upstream = rig.upstream()
    upstream.send(b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")
    rest, ending = upstream.rest(max(1.0, rig.settings.quiet))
    if rest:
        require(message.decode(rest).error is not None, "an Error TLV or no reply", rest.hex())
    return f"{rest.hex() or 'no byte'}, then {ending}"


def _unsupported_version(rig: Rig, version: int) -> str:
    origin = rig.origin()
    error = refused(rig, rig.request(origin.connect(), version=version), Code.UNSUPPORTED_VERSION)
    versions = error.value.rstrip(b"\0")
    fits = 1 in versions and 0 not in versions and version not in versions
    require(fits, "the list of supported versions: 1", error)
    require(len(error.value) - len(versions) < message.WORD, "fewer than four zeros of padding", error)
    origin.stays_untouched()
    return str(error)


CHECKS.add_each(_unsupported_version, {
    "version-zero": ("6.2.8", "The reserved version 0 gets error 0 with the list of supported versions.", 0),
    "version-two": ("6.2.8", "Version 2 gets error 0 with the list of supported versions.", 2),
    "version-255": ("6.2.8", "Version 255 gets error 0 with the list of supported versions.", 255),
})  # fmt: skip


@CHECKS.add("6.1")
def truncated_message(rig: Rig) -> str:
    """A message that ends too early makes no connection, and the client's one is ended."""
    origin = rig.origin()
    request = rig.request(origin.connect())
    for size in (0, 1, message.WORD, message.WORD + 1, len(request) - 1):
        upstream = rig.upstream()
        upstream.ask(request[:size])
        upstream.finish()
        rest, ending = upstream.rest()
        require(ending != Ending.OPEN, f"an end after {size} bytes and a FIN", f"{rest.hex() or 'no byte'}, {ending}")
        if rest:
            require(message.decode(rest).error is not None, "an Error TLV or no reply", rest.hex())
    origin.stays_untouched()
    return "each ended, no downstream connection"


def _error_then_fin(rig: Rig, data: bytes) -> str:
    upstream = rig.ask(message.tlv(UNKNOWN_TYPE, b""), data=data)
    error = error_of(upstream, Code.UNSUPPORTED_MESSAGE)
    ending = upstream.ends(Ending.CLOSED, expected="a FIN after the Error TLV")
    require(upstream.stays_whole(rig.settings.quiet), "no reset right behind the FIN", "one")
    return f"{error}, then {ending}"


CHECKS.add_each(_error_then_fin, {
    "error-before-fin": (
        "6.2.2", "An Error TLV is followed by a FIN; a reset at once could destroy it on its way.", b""),
    "error-before-fin-with-data": (
        "6.2.2", "The same when the client has sent 64 kB of data right behind its message.", bytes(65536)),
})  # fmt: skip


@CHECKS.add("6.2.8")
def serves_after_refusals(rig: Rig) -> str:
    """After refused, truncated and reset requests the converter serves as before."""
    for version, tlvs in ((2, [message.info()]), (1, [message.info()] * 2), (1, [message.tlv(0, b"")])):
        upstream = rig.ask(*tlvs, version=version)
        require(upstream.reply().error is not None, "an Error TLV", "none")
        upstream.reset()
    for start in (b"", b"\x01", message.encode(message.info())[:6]):
        upstream = rig.upstream()
        upstream.send(start)
        upstream.reset()
    upstream, downstream = rig.connected(BEHIND)
    downstream.expect(BEHIND, "the data at the server")
    return "served"
