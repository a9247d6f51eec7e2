"""Option blocks of any bytes through the parser, and segments that carry them through the handshakes.

A block is random, or a valid one with bits flipped, cut off, with a length edited, or spliced with another. Nothing but
ParseError may be raised, and what was read must be read again from what is written. Each share of the blocks has its
own seed, so that a crash comes back.
"""

import random
import resource
from collections import Counter, deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from throttler.sources.limits import Limits
from throttler.sources.tracker import Tracker
from tributary.wire import options as mptcp
from tributary.wire.keys import join_hmac, token
from tributary.wire.segments import Flags, Segment

_LONGEST = 40
"""Bytes of options that a TCP header can have."""
_STEP = 10**8
"""Nanoseconds between two segments at most."""
CLIENT_KEY, LISTENER_KEY, CLIENT_NONCE, LISTENER_NONCE = b"client's", b"listener", b"nonc", b"ance"
_SYN, _ACK, _FIN, _RST = Flags.SYN, Flags.ACK, Flags.FIN, Flags.RST
_TOKEN = token(LISTENER_KEY)
_HMAC_A = join_hmac(CLIENT_KEY, LISTENER_KEY, CLIENT_NONCE, LISTENER_NONCE)
_HMAC_B = join_hmac(LISTENER_KEY, CLIENT_KEY, LISTENER_NONCE, CLIENT_NONCE)[: mptcp.HMAC_IN_SYN_ACK]
_TIMESTAMPS = bytes.fromhex("0101080a323b3e6c62d43e89")
_LIMITS = (
    Limits(),
    Limits(half_open=8, half_open_of_client=4, sessions=2, subflows=5, subflows_of_client=3),
)

# A session's life: flags, whether it goes out, the client's port, and an option. A port is the subflow's name.
SCRIPT: tuple[tuple[Flags, bool, int, mptcp.Option], ...] = (
    (_SYN, False, 1, mptcp.MpCapable(1, 1)),
    (_SYN | _ACK, True, 1, mptcp.MpCapable(1, 1, LISTENER_KEY)),
    (_ACK, False, 1, mptcp.MpCapable(1, 1, CLIENT_KEY, LISTENER_KEY)),
    (_ACK, False, 1, mptcp.MpCapable(1, 1, CLIENT_KEY, LISTENER_KEY, data_length=4, checksum=0)),
    (_SYN, False, 2, mptcp.MpJoinSyn(False, 3, _TOKEN, CLIENT_NONCE)),
    (_SYN | _ACK, True, 2, mptcp.MpJoinSynAck(False, 1, _HMAC_B, LISTENER_NONCE)),
    (_ACK, False, 2, mptcp.MpJoinAck(_HMAC_A)),
    (_ACK, False, 2, mptcp.MpPrio(True)),
    (_ACK, True, 2, mptcp.Unparsed(mptcp.Subtype.DSS, 0, bytes(9))),
    (_ACK, False, 1, mptcp.AddAddr(False, 4, "10.0.3.2", 3128, bytes(8))),
    (_ACK, False, 1, mptcp.AddAddr(False, 5, "fd00::2", None, bytes(8))),
    (_ACK, True, 1, mptcp.AddAddr(True, 5, "fd00::2")),
    (_ACK, False, 1, mptcp.RemoveAddr((3, 4))),
    (_ACK, False, 1, mptcp.Unparsed(mptcp.Subtype.MP_FAIL, 0, bytes(9))),
    (_ACK | _FIN, False, 2, mptcp.Unparsed(9, 1, b"abc")),
    (_ACK | _FIN, True, 2, mptcp.Unparsed(mptcp.Subtype.MP_TCPRST, 1, b"\5")),
    (_RST, False, 1, mptcp.MpFastclose(LISTENER_KEY)),
)
CORPUS = tuple(mptcp.emit(option) for *_, option in SCRIPT)


def mutated(chance: random.Random, block: bytes) -> bytes:
    """``block`` with one thing wrong with it, or two."""
    data = bytearray(block)
    for _ in range(chance.randrange(1, 3)):
        at = chance.randrange(len(data)) if data else 0
        match chance.randrange(6) if data else 5:
            case 0:
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                del data[at:]
            case 2:
                data[min(1, len(data) - 1)] = chance.randrange(_LONGEST + 2)
            case 3:
                data[at:at] = chance.choice(CORPUS)
            case 4:
                data[at:] = chance.choice(CORPUS)[at:]
            case _:
                data[at : at + 4] = chance.randbytes(chance.randrange(5))
    return bytes(data[:_LONGEST])


def blocks(chance: random.Random) -> Iterator[tuple[int, bytes]]:
    """Blocks without end, each with the step of SCRIPT that it is for; every other life is nearly all valid."""
    while True:
        wrong = chance.choice((0.05, 0.8))
        for step, valid in enumerate(CORPUS):
            has_room = len(valid) <= _LONGEST - len(_TIMESTAMPS)
            whole = _TIMESTAMPS + valid if has_room and chance.random() < 0.5 else valid
            if chance.random() >= wrong:
                yield step, whole
            elif chance.random() < 0.8:
                yield step, mutated(chance, whole)
            else:
                yield step, chance.randbytes(chance.randrange(_LONGEST + 1))


def segment(chance: random.Random, time: int, step: int, block: bytes) -> Segment:
    """A segment with those options: the step's own, or one with its flags, direction or port wrong."""
    flags, outgoing, port, _ = SCRIPT[step]
    match chance.randrange(64):
        case 0:
            flags = Flags(chance.choice((0, 1, 2, 3, 4, 16, 17, 18, 20, 23)))
        case 1:
            outgoing = not outgoing
        case 2:
            port = chance.randrange(1, 2000)
    client, listener = ("10.0.1.2", port), ("10.0.1.1", 3128)
    source, destination = (listener, client) if outgoing else (client, listener)
    return Segment(time, "wired", outgoing, *source, *destination, flags, block)


def check(block: bytes) -> bool:
    """Whether the parser takes the block; what it read must survive being written."""
    try:
        found = mptcp.parse(block)
    except mptcp.ParseError:
        return False
    for option in found:
        assert mptcp.parse(mptcp.emit(option)) == (option,), option
    return True


def run(share: int, size: int) -> tuple[int, Counter[str]]:
    """Runs a share; returns how many blocks were malformed, and the events; an exception notes the last blocks."""
    chance = random.Random(share)
    tracker = Tracker(_LIMITS[share % len(_LIMITS)])
    recent, malformed, events = deque[str](maxlen=8), 0, Counter[str]()
    time = 10**18
    try:
        for step, block in islice(blocks(chance), size):
            recent.append(block.hex())
            malformed += not check(block)
            time += chance.randrange(_STEP)
            events.update(type(event).__name__ for event in tracker.handle(segment(chance, time, step, block)))
    except Exception as error:
        error.add_note(f"share {share}; the last blocks, the newest at the end: {' '.join(recent)}")
        raise
    return malformed, events


def memory() -> int:
    """Resident bytes of this process (proc_pid_statm(5))."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
