"""MPTCP in Scapy's TCP layer, for scripts of one's own: TCP option 30 as the values of tributary.wire.options.

>>> from scapy.layers.inet import IP, TCP
>>> from tributary.wire import scapy_layer
>>> from tributary.wire.options import MpJoinSyn
>>> scapy_layer.install()
>>> join = MpJoinSyn(backup=False, address_id=3, receiver_token=0x8F3778F8, sender_nonce=bytes.fromhex("149589a0"))
>>> packet = IP(src="10.0.2.2", dst="10.0.1.1") / TCP(dport=3128, options=[("MSS", 1460), ("MPTCP", join)])
>>> bytes(packet)[-12:].hex(" ", 4)
'1e0c1003 8f3778f8 149589a0'
>>> IP(bytes(packet))[TCP].options == [("MSS", 1460), ("MPTCP", join)]
True
>>> packet.sprintf("%TCP.options%")
"[('MSS', 1460), ('MPTCP', MpJoinSyn(backup=False, address_id=3, receiver_token=0x8f3778f8, sender_nonce=149589a0))]"

What cannot be read, and what would not be written again as it was (reserved bits that are set), stays bytes:
("MPTCP", b"..."), from the subtype on. When a script rebuilds a packet, Scapy writes each option's true length; so an
option that runs past the header's end does not keep the length that it claimed. A packet that is sent on as it was
dissected keeps all its bytes.
"""

from dataclasses import fields
from typing import Any

from scapy.layers.inet import TCP, TCPOptionsField
from scapy.packet import Packet

from tributary.wire import options as mptcp

NAME = "MPTCP"
"""What stands for the option's kind, as "MSS" and "Timestamp" do for theirs."""
_TCP_AO = 29


class MptcpOptionsField(TCPOptionsField):  # type: ignore[misc]
    """A TCP header's options: those of MPTCP are values or bytes, all others what Scapy makes of them."""

    def m2i(self, pkt: Packet, x: bytes) -> list[tuple[Any, Any]]:
        """From the wire."""
        if short := _short_authentication(x):
            begin, end = short
            return [*self.m2i(pkt, x[:begin]), (_TCP_AO, x[begin + 2 : end]), *self.m2i(pkt, x[end:])]
        found: list[tuple[Any, Any]] = super().m2i(pkt, x)
        # Scapy passes over a length that goes beyond the header: what is left might look whole.
        is_cut = bool(found) and found[-1][0] == mptcp.MPTCP and not x.endswith(_wire(found[-1][1]))
        whole, cut = (found[:-1], [(NAME, found[-1][1])]) if is_cut else (found, [])
        return [(NAME, _read(value)) if kind == mptcp.MPTCP else (kind, value) for kind, value in whole] + cut

    def i2m(self, pkt: Packet, x: list[tuple[Any, Any]]) -> bytes:
        """To the wire."""
        written: bytes = super().i2m(pkt, [_written(kind, value) for kind, value in x])
        return written

    def i2repr(self, pkt: Packet, x: object) -> str:
        """What show() prints: numbers that are no counts, and bytes, in hexadecimal."""
        if not isinstance(x, list):
            return str(super().i2repr(pkt, x))
        return f"[{', '.join(f'({kind!r}, {_text(value)})' for kind, value in x)}]"


def install() -> None:
    """Let TCP headers be dissected and built so from now on, in this process; a second time changes nothing."""
    # Scapy has no hook for one option, but all layers with a TCP header share one field object and its caches refer to
    # it. That object's class is the only thing that is changed.
    TCP.fields_desc[-1].__class__ = MptcpOptionsField


def _short_authentication(block: bytes) -> tuple[int, int] | None:
    """Where a TCP-AO lacks its keys' numbers (RFC 5925 section 2.2), of which Scapy makes no header."""
    at = 0
    while at < len(block) and block[at] != 0:
        end = at + (1 if block[at] == 1 else max((2, *block[at + 1 : at + 2])))
        if block[at] == _TCP_AO and len(block[at + 2 : end]) < 2:
            return at, end
        at = end
    return None


def _wire(value: bytes) -> bytes:
    return bytes([mptcp.MPTCP, len(value) + 2]) + value


def _read(value: bytes) -> mptcp.Option | bytes:
    try:
        (option,) = mptcp.parse(_wire(value))
    except mptcp.ParseError:
        return value
    return option if mptcp.emit(option) == _wire(value) else value


def _written(kind: object, value: Any) -> tuple[object, Any]:
    if kind not in (NAME, mptcp.MPTCP):
        return kind, value
    return mptcp.MPTCP, value if isinstance(value, bytes | str) else mptcp.emit(value)[2:]


def _text(value: object) -> str:
    if not isinstance(value, mptcp.Option):
        return repr(value)
    parts = ((field.name, getattr(value, field.name)) for field in fields(value))
    text = ", ".join(f"{name}={_part(name, part)}" for name, part in parts if part is not None)
    return f"{type(value).__name__}({text})"


def _part(name: str, part: object) -> str:
    if isinstance(part, bytes):
        return part.hex()
    return f"{part:#x}" if name in ("receiver_token", "flags", "checksum") else str(part)
