"""Messages that a converter must refuse (RFC 8803 sections 6.1, 6.2 and 9): mostly one table."""

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from .. import message
from ..message import Code, Error, Tlv
from ..rig import Rig
from ..stream import Ending, Stream
from ..verdict import Check, Checks, Level, Unmet, require

CHECKS = Checks()
UNKNOWN_TYPE = 200  # for private use (section 10.2.2)
BEHIND = b"user data behind the message"

Tlvs = Callable[[Rig, bytes], list[bytes]]


@dataclass(frozen=True)
class Refusal:
    """A message that gets an Error TLV with an echo of it (figure 23).

    `tlvs` makes it from the Connect TLV of a server that could be reached. `offender` is the place, among them, of
    the TLV that is wrong.
    """

    name: str
    clause: str
    asks: str
    code: Code
    tlvs: Tlvs
    offender: int = 0

    def run(self, rig: Rig) -> str:
        origin = rig.origin()
        before = rig.authorization()
        tlvs = self.tlvs(rig, origin.connect())
        request = message.encode(*before, *tlvs)
        error = refused(rig, request, self.code)
        wrong = tlvs[self.offender]
        _check_echo(error, request, wrong)
        require(origin.is_untouched(rig.settings.quiet), "no downstream connection", "one")
        return str(error)


def refused(rig: Rig, request: bytes, *codes: Code, data: bytes = b"") -> Error:
    """Sends a request; one of these errors must come back, and then the connection's end."""
    upstream = rig.upstream()
    upstream.ask(request + data)
    error = error_of(upstream, *codes)
    rest, ending = upstream.rest()
    require(not rest and ending != Ending.OPEN, "the end of the connection", f"{rest.hex()}, then {ending}")
    return error


def error_of(upstream: Stream, *codes: Code) -> Error:
    """The Error TLV that the converter replies with."""
    reply = upstream.reply()
    expected = " or ".join(f"error {code.value}" for code in codes)
    if reply.error is None or reply.error.code not in codes:
        raise Unmet(expected, str(reply))
    return reply.error


def _check_echo(error: Error, request: bytes, wrong: bytes) -> None:
    """The RFC leaves open whether the echo has the fixed header, or is the TLV that is wrong: all three pass."""
    zeros, echo = error.value[:1], error.value[1:]
    require(zeros == b"\0", "a zero byte before the echo", error)
    forms = (request, request[message.WORD :], wrong)
    require(echo in forms, f"an echo of the message: {request.hex()}", error)


def _address(text: str) -> Tlvs:
    address = IPv6Address(text) if ":" in text else IPv4Address(text)
    return lambda _, connect: [message.tlv(Tlv.CONNECT, connect[2:4] + message.mapped(address))]


def _options(field: bytes) -> Tlvs:
    return lambda _, connect: [message.tlv(Tlv.CONNECT, connect[2:] + field)]


def _address_refusal(what: str, text: str) -> Refusal:
    name = f"connect-to-{what.lower().replace(' ', '-')}"
    asks = f"A Connect to {text} ({what}) gets error 1 with the message echoed."
    return Refusal(name, "6.2.5", asks, Code.MALFORMED_MESSAGE, _address(text))


REFUSALS = (
    Refusal("tlv-of-length-zero", "6.2.1", "A TLV of length zero gets error 1 with the message echoed.",
            Code.MALFORMED_MESSAGE, lambda _, connect: [message.tlv(UNKNOWN_TYPE, b"", words=0), connect]),
    Refusal("tlv-past-the-end", "9", "A TLV that is longer than what the Total Length leaves gets error 1, with echo.",
            Code.MALFORMED_MESSAGE, lambda _, connect: [message.tlv(Tlv.CONNECT, connect[2:], words=6)]),
    Refusal("second-tlv-past-the-end", "9", "The same behind a good Connect: error 1, and no connection.",
            Code.MALFORMED_MESSAGE, lambda _, connect: [connect, message.tlv(Tlv.INFO, b"", words=2)], 1),
    Refusal("duplicate-connect", "6.2.1", "Two Connect TLVs get error 1 with the message echoed.",
            Code.MALFORMED_MESSAGE, lambda _, connect: [connect, connect], 1),
    Refusal("duplicate-info", "6.2.1", "Two Info TLVs get error 1 with the message echoed.",
            Code.MALFORMED_MESSAGE, lambda *_: [message.info(), message.info()], 1),
    Refusal("connect-without-address", "6.2.5", "A Connect of one word gets error 1 with the message echoed.",
            Code.MALFORMED_MESSAGE, lambda _, connect: [connect[:1] + b"\x01" + connect[2:4]]),
    Refusal("connect-too-short", "6.2.5", "A Connect of four words gets error 1 with the message echoed.",
            Code.MALFORMED_MESSAGE, lambda _, connect: [connect[:1] + b"\x04" + connect[2:16]]),
    Refusal("info-too-long", "6.2.2", "An Info of two words instead of one gets error 1 with the message echoed.",
            Code.MALFORMED_MESSAGE, lambda *_: [message.tlv(Tlv.INFO, bytes(6))]),
    Refusal("option-of-length-zero", "6.2.5", "A TCP option of length 0 in a Connect gets error 1, with echo.",
            Code.MALFORMED_MESSAGE, _options(b"\x04\x00\x00\x00")),
    Refusal("option-of-length-one", "6.2.5", "A TCP option of length 1 in a Connect gets error 1, with echo.",
            Code.MALFORMED_MESSAGE, _options(b"\x04\x01\x00\x00")),
    Refusal("option-past-the-end", "6.2.5", "A TCP option that is longer than the Connect gets error 1, with echo.",
            Code.MALFORMED_MESSAGE, _options(b"\x04\x05\x00\x00")),
    Refusal("reserved-type-zero", "6.2.2", "A TLV of type 0 gets error 2 with the message echoed.",
            Code.UNSUPPORTED_MESSAGE, lambda _, connect: [message.tlv(0, bytes(2)), connect]),
    Refusal("unknown-type", "6.2.8", "A TLV of an unknown type gets error 2 with the message echoed.",
            Code.UNSUPPORTED_MESSAGE, lambda _, connect: [message.tlv(UNKNOWN_TYPE, b"unknown"), connect]),
    Refusal("unknown-type-behind-connect", "6.2.8", "The same behind a good Connect: error 2, and no connection.",
            Code.UNSUPPORTED_MESSAGE, lambda _, connect: [connect, message.tlv(UNKNOWN_TYPE, b"unknown")], 1),
    _address_refusal("IPv4 loopback", "127.0.0.1"),
    _address_refusal("high IPv4 loopback", "127.255.255.254"),
    _address_refusal("IPv4 multicast", "224.0.0.1"),
    _address_refusal("high IPv4 multicast", "239.255.255.250"),
    _address_refusal("IPv4 broadcast", "255.255.255.255"),
    _address_refusal("IPv6 loopback", "::1"),
    _address_refusal("IPv6 multicast", "ff02::1"),
    _address_refusal("global IPv6 multicast", "ff0e::1"),
)  # fmt: skip
CHECKS += [Check(each.name, each.clause, Level.MUST, each.asks, each.run) for each in REFUSALS]


@CHECKS.add("6.2.5", Level.SHOULD)
def connect_to_unspecified(rig: Rig) -> str:
    """A Connect to 0.0.0.0 or :: (which would reach the converter) gets an error."""
    errors = []
    for address in (IPv4Address(0), IPv6Address(0)):
        upstream = rig.upstream()
        upstream.ask(rig.request(message.connect(address, 9)))
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
    require(origin.is_untouched(rig.settings.quiet), "no downstream connection", "one")
    return ", ".join(map(str, came))


@CHECKS.add("6.2.8", Level.MUST)
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


@CHECKS.add("6.1", Level.MUST)
def total_length_zero(rig: Rig) -> str:
    """A Total Length of zero gets a reset, and no reply."""
    origin = rig.origin()
    upstream = rig.upstream()
    upstream.ask(message.encode(origin.connect(), words=0))
    rest, ending = upstream.rest()
    require(not rest and ending == Ending.RESET, "a reset", f"{rest.hex() or 'no byte'}, then {ending}")
    require(origin.is_untouched(rig.settings.quiet), "no downstream connection", "one")
    return ending


@CHECKS.add("6.1", Level.MUST)
def wrong_magic(rig: Rig) -> str:
    """A wrong magic number is no Convert message: error 1, an end, or silence; no connection."""
    origin = rig.origin()
    upstream = rig.upstream()
    upstream.ask(rig.request(origin.connect(), magic=0x2264))
    rest, ending = upstream.rest(max(1.0, rig.settings.quiet))
    if rest:
        error = message.decode(rest).error
        require(error is not None and error.code == Code.MALFORMED_MESSAGE, "error 1 or no reply", rest.hex())
    require(origin.is_untouched(rig.settings.quiet), "no downstream connection", "one")
    return f"{rest.hex() or 'no byte'}, then {ending}"


@CHECKS.add("6", Level.MUST)
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
    require(origin.is_untouched(rig.settings.quiet), "no downstream connection", "one")
    return str(error)


@CHECKS.add("6.2.8", Level.MUST)
def version_zero(rig: Rig) -> str:
    """The reserved version 0 gets error 0 with the list of supported versions."""
    return _unsupported_version(rig, 0)


@CHECKS.add("6.2.8", Level.MUST)
def version_two(rig: Rig) -> str:
    """Version 2 gets error 0 with the list of supported versions."""
    return _unsupported_version(rig, 2)


@CHECKS.add("6.2.8", Level.MUST)
def version_255(rig: Rig) -> str:
    """Version 255 gets error 0 with the list of supported versions."""
    return _unsupported_version(rig, 255)


@CHECKS.add("6.1", Level.MUST)
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
    require(origin.is_untouched(rig.settings.quiet), "no downstream connection", "one")
    return "each ended, no downstream connection"


@CHECKS.add("6.2.2", Level.MUST)
def error_before_fin(rig: Rig) -> str:
    """An Error TLV is followed by a FIN; a reset at once could destroy it on its way."""
    return _error_then_fin(rig, b"")


@CHECKS.add("6.2.2", Level.MUST)
def error_before_fin_with_data(rig: Rig) -> str:
    """The same when the client has sent 64 kB of data right behind its message."""
    return _error_then_fin(rig, bytes(65536))


def _error_then_fin(rig: Rig, data: bytes) -> str:
    upstream = rig.upstream()
    upstream.ask(rig.request(message.tlv(UNKNOWN_TYPE, b"")) + data)
    error = error_of(upstream, Code.UNSUPPORTED_MESSAGE)
    rest, ending = upstream.rest()
    require(not rest and ending == Ending.CLOSED, "a FIN after the Error TLV", f"{rest.hex() or 'no byte'}, {ending}")
    require(upstream.stays_whole(rig.settings.quiet), "no reset right behind the FIN", "one")
    return f"{error}, then {ending}"


@CHECKS.add("6.2.8", Level.MUST)
def serves_after_refusals(rig: Rig) -> str:
    """After refused, truncated and reset requests the converter serves as before."""
    for version, tlvs in ((2, [message.info()]), (1, [message.info()] * 2), (1, [message.tlv(0, b"")])):
        upstream = rig.upstream()
        upstream.ask(rig.request(*tlvs, version=version))
        require(upstream.reply().error is not None, "an Error TLV", "none")
        upstream.reset()
    for start in (b"", b"\x01", message.encode(message.info())[:6]):
        upstream = rig.upstream()
        upstream.send(start)
        upstream.reset()
    upstream, downstream = rig.connected(BEHIND)
    downstream.expect(BEHIND, "the data at the server")
    return "served"
