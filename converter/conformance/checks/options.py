"""The Extended Connect and Extended TCP Header TLVs (RFC 8803 sections 6.2.5, 6.2.6 and 7)."""

from .. import message
from ..message import Code, Kind, Option, Reply, Tlv
from ..origin import Origin
from ..rig import Rig, accepted
from ..stream import TCP_INFO_SACK, TCP_INFO_SCALE, TCP_INFO_TIMESTAMPS, Stream
from ..verdict import Checks, Level, Skip, require
from .capabilities import supported

CHECKS = Checks()
ON_REQUEST = (Kind.MULTIPATH, Kind.SACK_PERMITTED, Kind.TIMESTAMP)  # without a value: sections 7.3, 7.4, 7.5
SEGMENT = 1100  # bytes: a maximum segment size that is nobody's default
FOREIGN_SEGMENT = 701
FOREIGN_SCALE = 1


def _wanted(rig: Rig) -> list[Option]:
    """Options that this converter supports; else one that it must ignore, which makes the Connect an Extended one."""
    listed = supported(rig)
    kinds = [kind for kind in ON_REQUEST if kind in listed]
    return [Option(kind) for kind in kinds] or [Option(Kind.SACK, bytes(8))]


def _encode(wanted: list[Option]) -> bytes:
    return b"".join(option.encode() for option in wanted)


def _extended(rig: Rig, origin: Origin, options: bytes, data: bytes = b"") -> tuple[Reply, Stream]:
    """The reply to an Extended Connect, and the server's end of the connection."""
    upstream = rig.upstream()
    upstream.ask(rig.request(origin.connect(message.pad(options))) + data)
    reply = accepted(upstream.reply())
    return reply, origin.accept()


def _header(reply: Reply) -> tuple[Option, ...]:
    """The options in the Extended TCP Header TLV."""
    require(Tlv.EXTENDED_TCP_HEADER in reply.tlvs, "an Extended TCP Header TLV", reply)
    return message.options(reply.tlvs[Tlv.EXTENDED_TCP_HEADER][2:])


@CHECKS.add("6.2.6", Level.MUST)
def extended_header_present(rig: Rig) -> str:
    """An Extended Connect that succeeds is answered by an Extended TCP Header TLV."""
    reply, _ = _extended(rig, rig.origin(), _encode(_wanted(rig)))
    return message.kinds(_header(reply))


@CHECKS.add("6.2.6", Level.MUST)
def extended_header_well_formed(rig: Rig) -> str:
    """Its Unassigned field is zero, and well-formed TCP options with an MSS follow."""
    reply, _ = _extended(rig, rig.origin(), _encode(_wanted(rig)))
    found = _header(reply)
    require(not any(reply.tlvs[Tlv.EXTENDED_TCP_HEADER][:2]), "0000 in the Unassigned field", reply)
    sizes = [len(option.value) for option in found if option.kind == Kind.MAXIMUM_SEGMENT_SIZE]
    require(sizes == [2], "one MSS option (kind 2) of 4 bytes", message.kinds(found))
    return message.kinds(found)


@CHECKS.add("6.2.6", Level.MUST)
def extended_header_is_copy(rig: Rig) -> str:
    """The returned header is a copy of the options in the server's SYN+ACK."""
    origin = rig.origin(segment=SEGMENT)
    reply, downstream = _extended(rig, origin, _encode(_wanted(rig)))
    found = {option.kind: option.value for option in _header(reply)}
    segment = int.from_bytes(found.get(Kind.MAXIMUM_SEGMENT_SIZE, b""))
    agreed, scale = downstream.negotiated
    require(segment == SEGMENT, f"the server's MSS, {SEGMENT}", segment)
    for bit, kind in ((TCP_INFO_SACK, Kind.SACK_PERMITTED), (TCP_INFO_TIMESTAMPS, Kind.TIMESTAMP)):
        require((kind in found) == bool(agreed & bit), f"kind {kind} as in the SYN+ACK: {bool(agreed & bit)}", reply)
    expected = bytes([scale]) if agreed & TCP_INFO_SCALE else None
    require(found.get(Kind.WINDOW_SCALE) == expected, f"the server's window scale: {expected!r}", reply)
    return str(reply)


@CHECKS.add("5.1", Level.MUST)
def extended_header_of_tcp_server(rig: Rig) -> str:
    """The returned header has no kind 30 when the server speaks plain TCP."""
    reply, _ = _extended(rig, rig.origin(), _encode(_wanted(rig)))
    require(Kind.MULTIPATH not in {option.kind for option in _header(reply)}, "no kind 30", reply)
    return str(reply)


@CHECKS.add("5.1", Level.MUST)
def extended_header_of_multipath_server(rig: Rig) -> str:
    """The returned header has kind 30 when it was asked for and the server agreed to it."""
    if Kind.MULTIPATH not in supported(rig):
        raise Skip("the converter does not announce kind 30")
    origin = rig.origin(mptcp=True)
    reply, downstream = _extended(rig, origin, Option(Kind.MULTIPATH).encode())
    found = {option.kind for option in _header(reply)}
    require((Kind.MULTIPATH in found) == downstream.is_multipath, f"kind 30: {downstream.is_multipath}", reply)
    require(downstream.is_multipath, "a Multipath TCP downstream connection", "plain TCP")
    return str(reply)


def _asked_for(rig: Rig, kind: Kind) -> str:
    """An option that was asked for without a value is in the SYN, with a value of the converter's own."""
    listed = supported(rig)
    if kind not in listed and not (kind == Kind.MULTIPATH and rig.settings.mptcp):
        raise Skip(f"the converter does not announce kind {kind}")
    _, downstream = _extended(rig, rig.origin(), Option(kind).encode())
    found = downstream.syn_options
    require(kind in {option.kind for option in found}, f"kind {kind} in the SYN to the server", message.kinds(found))
    return f"SYN with {message.kinds(found)}"


@CHECKS.add("6.2.5", Level.MUST)
def sack_permitted_is_requested(rig: Rig) -> str:
    """Kind 4 (SACK permitted), asked for without a value, is in the SYN to the server."""
    return _asked_for(rig, Kind.SACK_PERMITTED)


@CHECKS.add("6.2.5", Level.MUST)
def timestamp_is_requested(rig: Rig) -> str:
    """Kind 8 (timestamps), asked for without a value, is in the SYN to the server."""
    return _asked_for(rig, Kind.TIMESTAMP)


@CHECKS.add("6.2.5", Level.MUST)
def multipath_is_requested(rig: Rig) -> str:
    """Kind 30 (Multipath TCP), asked for without a value, is in the SYN to the server."""
    return _asked_for(rig, Kind.MULTIPATH)


@CHECKS.add("6.2.5", Level.MUST)
def options_together(rig: Rig) -> str:
    """Options 30, 4 and 8 together, as far as announced, are all in the SYN to the server."""
    wanted = _wanted(rig)
    _, downstream = _extended(rig, rig.origin(), _encode(wanted))
    found = downstream.syn_options
    missing = {option.kind for option in wanted if option.kind in ON_REQUEST} - {option.kind for option in found}
    require(not missing, f"kinds {message.kinds(wanted)} in the SYN", message.kinds(found))
    return f"SYN with {message.kinds(found)}"


def _ignored(rig: Rig, options: bytes) -> tuple[Option, ...]:
    """The options of the SYN to the server when the Connect holds options that must be ignored."""
    _, downstream = _extended(rig, rig.origin(), options)
    return downstream.syn_options


@CHECKS.add("7.1", Level.MUST)
def end_of_options_is_ignored(rig: Rig) -> str:
    """Kind 0 in a Connect is ignored."""
    return f"SYN with {message.kinds(_ignored(rig, bytes(4)))}"


@CHECKS.add("7.1", Level.MUST)
def no_operation_is_ignored(rig: Rig) -> str:
    """Kind 1 in a Connect is ignored."""
    return f"SYN with {message.kinds(_ignored(rig, bytes([Kind.NO_OPERATION]) * 4))}"


@CHECKS.add("7.1", Level.MUST)
def maximum_segment_size_is_ignored(rig: Rig) -> str:
    """Kind 2 (MSS) in a Connect is ignored: its value is not used."""
    asked = Option(Kind.MAXIMUM_SEGMENT_SIZE, FOREIGN_SEGMENT.to_bytes(2))
    found = _ignored(rig, asked.encode())
    require(asked not in found, f"another MSS than {FOREIGN_SEGMENT}", message.kinds(found))
    return f"SYN with {message.kinds(found)}"


@CHECKS.add("7.2", Level.MUST)
def window_scale_is_ignored(rig: Rig) -> str:
    """Kind 3 (window scale) in a Connect is ignored: its value is not used."""
    asked = Option(Kind.WINDOW_SCALE, bytes([FOREIGN_SCALE]))
    found = _ignored(rig, asked.encode())
    require(asked not in found, f"another window scale than {FOREIGN_SCALE}", message.kinds(found))
    return f"SYN with {message.kinds(found)}"


@CHECKS.add("7.3", Level.MUST)
def sack_is_ignored(rig: Rig) -> str:
    """Kind 5 (SACK) in a Connect is ignored: it is not in the SYN."""
    found = _ignored(rig, Option(Kind.SACK, bytes(8)).encode())
    require(Kind.SACK not in {option.kind for option in found}, "a SYN without kind 5", message.kinds(found))
    return f"SYN with {message.kinds(found)}"


def _refused_kinds(rig: Rig, options: list[Option], unsupported: set[int]) -> str:
    origin = rig.origin()
    upstream = rig.upstream()
    upstream.ask(rig.request(origin.connect(message.pad(_encode(options)))))
    reply = upstream.reply()
    error = reply.error
    expected = f"error 33 with kinds {sorted(unsupported)}, padded by fewer than four zeros"
    require(error is not None and error.code == Code.UNSUPPORTED_TCP_OPTION, expected, reply)
    value = error.value if error else b""
    listed = value.rstrip(b"\0")
    fits = sorted(listed) == sorted(unsupported) and len(value) - len(listed) < message.WORD
    require(fits, expected, reply)
    require(origin.is_untouched(rig.settings.quiet), "no downstream connection", "one")
    return str(error)


def _unknown(rig: Rig) -> int:
    """A kind that the converter does not announce: 253 and 254 are for experiments (RFC 4727)."""
    listed = supported(rig)
    return next(kind for kind in (253, 254, 79) if kind not in listed)


@CHECKS.add("6.2.8", Level.MUST)
def unsupported_option(rig: Rig) -> str:
    """An option that the converter does not support gets error 33 with its kind."""
    kind = _unknown(rig)
    return _refused_kinds(rig, [Option(kind, b"\xca\xfe")], {kind})


@CHECKS.add("6.2.8", Level.MUST)
def unsupported_options_are_listed(rig: Rig) -> str:
    """Several unsupported options are all in error 33, padded; supported ones are not."""
    kind = _unknown(rig)
    options = [Option(Kind.AUTHENTICATION, bytes(2)), *_wanted(rig), Option(kind, b"\xca\xfe")]
    return _refused_kinds(rig, options, {Kind.AUTHENTICATION, kind})


@CHECKS.add("7.7", Level.MUST)
def tcp_ao_is_refused(rig: Rig) -> str:
    """TCP-AO (kind 29) is refused by error 33."""
    return _refused_kinds(rig, [Option(Kind.AUTHENTICATION, bytes(14))], {Kind.AUTHENTICATION})


def _needs_fast_open(rig: Rig) -> Origin:
    """A server that hands out Fast Open cookies."""
    if Kind.FAST_OPEN not in supported(rig):
        raise Skip("the converter does not announce kind 34")
    return rig.origin(fast_open=True)


def _fast_open(rig: Rig, origin: Origin, cookie: bytes) -> tuple[bytes | None, bytes | None]:
    """The Fast Open options in the SYN to the server, and in the returned header."""
    reply, downstream = _extended(rig, origin, Option(Kind.FAST_OPEN, cookie).encode(), b"data")
    sent = {option.kind: option.value for option in downstream.syn_options}
    returned = {option.kind: option.value for option in _header(reply)}
    downstream.expect(b"data", "the data at the server")
    return sent.get(Kind.FAST_OPEN), returned.get(Kind.FAST_OPEN)


@CHECKS.add("7.6", Level.MUST)
def fast_open_cookie_is_relayed(rig: Rig) -> str:
    """An empty Fast Open option is put into the SYN; the cookie of the SYN+ACK comes back."""
    sent, returned = _fast_open(rig, _needs_fast_open(rig), b"")
    require(sent == b"", "an empty kind 34 in the SYN to the server", "none" if sent is None else sent.hex())
    if not returned and not _hands_out_cookies():
        raise Skip("this machine hands out no Fast Open cookies: net.ipv4.tcp_fastopen lacks 2")
    require(bool(returned), "the server's cookie in the returned header", repr(returned))
    return f"cookie {(returned or b'').hex()}"


@CHECKS.add("7.6", Level.MUST)
def fast_open_cookie_is_copied(rig: Rig) -> str:
    """A Fast Open option with a cookie is copied into the SYN to the server."""
    if not _hands_out_cookies():
        raise Skip("this machine hands out no Fast Open cookies: net.ipv4.tcp_fastopen lacks 2")
    origin = _needs_fast_open(rig)
    _, cookie = _fast_open(rig, origin, b"")
    sent, _ = _fast_open(rig, origin, cookie or bytes(range(8)))
    require(sent == (cookie or bytes(range(8))), "the client's cookie in the SYN to the server", repr(sent))
    return f"cookie {(sent or b'').hex()}"


def _hands_out_cookies() -> bool:
    try:
        with open("/proc/sys/net/ipv4/tcp_fastopen", encoding="ascii") as setting:  # noqa: PTH123
            return bool(int(setting.read()) & 2)
    except (OSError, ValueError):
        return False
