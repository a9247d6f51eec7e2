"""Measures from packet timestamps how long it takes from a join to its enforcement.

    python -m experiments.probes.enforcement [--installed] INTERFACE...

Runs on the gateway, prints ``ready``, and waits for the third ACK of a join on any of the interfaces (RFC 8684 section
3.2), and for the first packet that leaves by one of them with the throttler's mark, which decides its HTB class, after
the join, or with --installed whenever that is: where a rule does not wait for a join, it comes before. Once it has seen
both it prints one JSON object: {"join_ack": UNIX TIME, "first_held": UNIX TIME}.

Both are the kernel's own timestamps (packet(7), SO_TIMESTAMPNS); that of a packet on its way out is taken behind the
qdisc.
"""

import json
import select
import socket
import sys
from collections.abc import Iterator

from experiments.probes import capture
from tributary.kernel import bpf
from tributary.kernel.bpf import Instruction
from tributary.wire import capture_filter
from tributary.wire.options import MpJoinAck, ParseError, parse

_INSTALLED = "--installed"
_PACKET_MARK = 0xFFFF_F000 + 20  # SKF_AD_OFF + SKF_AD_MARK
_MARK, _MARK_MASK = 0x5452_0000, 0xFFFF_0000  # what the throttler's marks begin with (docs/throttler-reference.md)


def held_filter() -> tuple[Instruction, ...]:
    """A classic BPF program that takes only packets with a mark of the throttler."""
    return (
        Instruction(bpf.LOAD_WORD, _PACKET_MARK),
        Instruction(bpf.AND, _MARK_MASK),
        Instruction(bpf.JUMP_EQUAL, _MARK, no=1),
        Instruction(bpf.RETURN, 64),
        Instruction(bpf.RETURN, 0),
    )


def main(interfaces: list[str], *, installed: bool) -> None:
    """Watch ``interfaces`` until both packets were seen."""
    joins = [capture.opened(capture_filter.program(), interface) for interface in interfaces]
    held = [capture.opened(held_filter(), interface) for interface in interfaces]
    print("ready", flush=True)
    join_ack = next(stamp for stamp, frame in _frames(joins) if is_join_ack(frame))
    # What has left meanwhile waits in the sockets, in its order.
    first_held = next(stamp for stamp, _ in _frames(held) if installed or stamp > join_ack)
    print(json.dumps({"join_ack": join_ack, "first_held": first_held}), flush=True)


def is_join_ack(frame: bytes) -> bool:
    """Whether an Ethernet frame carries the third ACK of a join."""
    version = frame[14] >> 4
    start = 14 + (40 if version == 6 else 4 * (frame[14] & 0xF))
    end = start + 4 * (frame[start + 12] >> 4)
    try:
        return any(isinstance(option, MpJoinAck) for option in parse(frame[start + 20 : end]))
    except ParseError:
        return False


def _frames(sockets: list[socket.socket]) -> Iterator[tuple[float, bytes]]:
    """Each frame that comes in on any of ``sockets``, with its Unix time."""
    while True:
        for ready in select.select(sockets, [], [])[0]:
            at, frame, _, _ = capture.receive(ready)
            yield at / 1e9, frame


if __name__ == "__main__":
    main([each for each in sys.argv[1:] if each != _INSTALLED], installed=_INSTALLED in sys.argv)
