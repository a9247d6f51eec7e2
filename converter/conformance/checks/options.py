"""The Extended Connect and Extended TCP Header TLVs (RFC 8803 sections 6.2.5, 6.2.6 and 7)."""

from .. import message
from ..message import Code, Kind, Option, Reply, Tlv
from ..origin import Origin
from ..rig import Rig, accepted
from ..stream import TCP_INFO_SACK, TCP_INFO_SCALE, TCP_INFO_TIMESTAMPS, Stream
from ..verdict import Checks, Skip, Unmet, require
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
    reply = accepted(rig.ask(origin.connect(message.pad(options)), data=data).reply())
    return reply, origin.accept()


def _header(reply: Reply) -> tuple[Option, ...]:
    require(Tlv.EXTENDED_TCP_HEADER in reply.tlvs, "an Extended TCP Header TLV", reply)
    return message.options(reply.tlvs[Tlv.EXTENDED_TCP_HEADER][2:])


@CHECKS.add("6.2.6")
def extended_header_present(rig: Rig) -> str:
    """An Extended Connect that succeeds is answered by an Extended TCP Header TLV."""
    reply, _ = _extended(rig, rig.origin(), _encode(_wanted(rig)))
    return message.kinds(_header(reply))


@CHECKS.add("6.2.6")
def extended_header_well_formed(rig: Rig) -> str:
    """Its Unassigned field is zero, and well-formed TCP options with an MSS follow."""
    reply, _ = _extended(rig, rig.origin(), _encode(_wanted(rig)))
    found = _header(reply)
    require(not any(reply.tlvs[Tlv.EXTENDED_TCP_HEADER][:2]), "0000 in the Unassigned field", reply)
    sizes = [len(option.value) for option in found if option.kind == Kind.MAXIMUM_SEGMENT_SIZE]
    require(sizes == [2], "one MSS option (kind 2) of 4 bytes", message.kinds(found))
    return message.kinds(found)


@CHECKS.add("6.2.6")
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


@CHECKS.add("5.1")
def extended_header_of_tcp_server(rig: Rig) -> str:
    """The returned header has no kind 30 when the server speaks plain TCP."""
    reply, _ = _extended(rig, rig.origin(), _encode(_wanted(rig)))
    require(Kind.MULTIPATH not in {option.kind for option in _header(reply)}, "no kind 30", reply)
    return str(reply)


@CHECKS.add("5.1")
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


CHECKS.add_each(_asked_for, {
    "sack-permitted-is-requested": (
        "6.2.5", "Kind 4 (SACK permitted), asked for without a value, is in the SYN to the server.",
        Kind.SACK_PERMITTED),
    "timestamp-is-requested": (
        "6.2.5", "Kind 8 (timestamps), asked for without a value, is in the SYN to the server.", Kind.TIMESTAMP),
    "multipath-is-requested": (
        "6.2.5", "Kind 30 (Multipath TCP), asked for without a value, is in the SYN to the server.", Kind.MULTIPATH),
})  # fmt: skip


@CHECKS.add("6.2.5")
def options_together(rig: Rig) -> str:
    """Options 30, 4 and 8 together, as far as announced, are all in the SYN to the server."""
    wanted = _wanted(rig)
    _, downstream = _extended(rig, rig.origin(), _encode(wanted))
    found = downstream.syn_options
    missing = {option.kind for option in wanted if option.kind in ON_REQUEST} - {option.kind for option in found}
    require(not missing, f"kinds {message.kinds(wanted)} in the SYN", message.kinds(found))
    return f"SYN with {message.kinds(found)}"


def _ignored(rig: Rig, options: bytes) -> str:
    """The SYN to the server has none of the options that the Connect holds, and in no case SACK."""
    asked = message.options(options)
    _, downstream = _extended(rig, rig.origin(), options)
    found = downstream.syn_options
    copied = [each for each in found if each in asked or each.kind == Kind.SACK]
    require(not copied, f"a SYN without {message.kinds(asked)}", message.kinds(found))
    return f"SYN with {message.kinds(found)}"


CHECKS.add_each(_ignored, {
    "end-of-options-is-ignored": ("7.1", "Kind 0 in a Connect is ignored.", bytes(4)),
    "no-operation-is-ignored": ("7.1", "Kind 1 in a Connect is ignored.", bytes([Kind.NO_OPERATION]) * 4),
    "maximum-segment-size-is-ignored": ("7.1", "Kind 2 (MSS) in a Connect is ignored: its value is not used.",
        Option(Kind.MAXIMUM_SEGMENT_SIZE, FOREIGN_SEGMENT.to_bytes(2)).encode()),
    "window-scale-is-ignored": ("7.2", "Kind 3 (window scale) in a Connect is ignored: its value is not used.",
        Option(Kind.WINDOW_SCALE, bytes([FOREIGN_SCALE])).encode()),
    "sack-is-ignored": (
        "7.3", "Kind 5 (SACK) in a Connect is ignored: it is not in the SYN.", Option(Kind.SACK, bytes(8)).encode()),
})  # fmt: skip


def _refused_kinds(rig: Rig, wrong: list[Option], supported_too: bool = False) -> str:
    """Options that the converter does not support are listed in error 33."""
    origin = rig.origin()
    options = [*wrong[:1], *(_wanted(rig) if supported_too else ()), *wrong[1:]]
    reply = rig.ask(origin.connect(message.pad(_encode(options)))).reply()
    unsupported = sorted(option.kind for option in wrong)
    expected = f"error 33 with kinds {unsupported}, padded by fewer than four zeros"
    if reply.error is None or reply.error.code != Code.UNSUPPORTED_TCP_OPTION:
        raise Unmet(expected, str(reply))
    value = reply.error.value
    listed = value.rstrip(b"\0")
    require(sorted(listed) == unsupported and len(value) - len(listed) < message.WORD, expected, reply)
    origin.stays_untouched()
    return str(reply.error)


def _unknown(rig: Rig) -> Option:
    """A kind that the converter does not announce: 253 and 254 are for experiments (RFC 4727)."""
    listed = supported(rig)
    return Option(next(kind for kind in (253, 254, 79) if kind not in listed), b"\xca\xfe")


@CHECKS.add("6.2.8")
def unsupported_option(rig: Rig) -> str:
    """An option that the converter does not support gets error 33 with its kind."""
    return _refused_kinds(rig, [_unknown(rig)])


@CHECKS.add("6.2.8")
def unsupported_options_are_listed(rig: Rig) -> str:
    """Several unsupported options are all in error 33, padded; supported ones are not."""
    return _refused_kinds(rig, [Option(Kind.AUTHENTICATION, bytes(2)), _unknown(rig)], supported_too=True)


@CHECKS.add("7.7")
def tcp_ao_is_refused(rig: Rig) -> str:
    """TCP-AO (kind 29) is refused by error 33."""
    return _refused_kinds(rig, [Option(Kind.AUTHENTICATION, bytes(14))])


def _needs_fast_open(rig: Rig) -> Origin:
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


@CHECKS.add("7.6")
def fast_open_cookie_is_relayed(rig: Rig) -> str:
    """An empty Fast Open option is put into the SYN; the cookie of the SYN+ACK comes back."""
    sent, returned = _fast_open(rig, _needs_fast_open(rig), b"")
    require(sent == b"", "an empty kind 34 in the SYN to the server", "none" if sent is None else sent.hex())
    if not returned and not _hands_out_cookies():
        raise Skip("this machine hands out no Fast Open cookies: net.ipv4.tcp_fastopen lacks 2")
    require(bool(returned), "the server's cookie in the returned header", repr(returned))
    return f"cookie {(returned or b'').hex()}"


@CHECKS.add("7.6")
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
