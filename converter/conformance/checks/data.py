"""What happens to user data (RFC 8803 sections 4.1, 4.2, 6)."""

import random
import time
from functools import cache

from ..rig import Rig, accepted
from ..stream import Ending, Stream, brief
from ..verdict import Checks

CHECKS = Checks()
DATA = b"user data right behind the Convert message"
LARGE = 4 << 20
BETWEEN = 0.005  # seconds between two parts of a message, so that they come in segments of their own


@cache
def block(size: int, seed: int) -> bytes:
    """Random bytes, the same at every run."""
    return random.Random(seed).randbytes(size)


def whole_and_once(upstream: Stream, downstream: Stream, data: bytes) -> None:
    """The server gets ``data`` and nothing more; raises Unmet otherwise."""
    downstream.expect(data, "the data at the server")
    upstream.finish()
    downstream.ends(Ending.CLOSED, expected="the data once, then a FIN")


@CHECKS.add("6")
def data_with_message(rig: Rig) -> str:
    """Data in the same segment as the message reach the server once, without the message."""
    upstream, downstream = rig.connected(DATA)
    whole_and_once(upstream, downstream, DATA)
    return f"{len(DATA)} bytes, once"


@CHECKS.add("6")
def split_at_every_byte(rig: Rig) -> str:
    """A message that is split at any byte is understood, and the data behind it are whole."""
    origin = rig.origin()
    request = rig.request(origin.connect())
    for cut in range(1, len(request) + 1):
        upstream = rig.upstream()
        upstream.send(request[:cut])
        time.sleep(BETWEEN)
        upstream.send(request[cut:] + DATA)
        rig.notes.append(f"> {request.hex()} split after {cut} bytes")
        accepted(upstream.reply())
        origin.accept().expect(DATA, f"the data behind a message split after {cut} bytes")
        upstream.reset()
    return f"{len(request)} cuts"


@CHECKS.add("6")
def one_byte_at_a_time(rig: Rig) -> str:
    """A message that comes one byte at a time is understood, and the data behind it are whole."""
    origin = rig.origin()
    upstream = rig.upstream()
    request = rig.request(origin.connect())
    rig.notes.append(f"> {request.hex()} one byte at a time, data right behind")
    for byte in request + DATA:
        upstream.send(bytes([byte]))
        time.sleep(BETWEEN)
    accepted(upstream.reply())
    downstream = origin.accept()
    whole_and_once(upstream, downstream, DATA)
    return f"{len(request)} bytes of message"


@CHECKS.add("6")
def megabyte_behind_message(rig: Rig) -> str:
    """A megabyte right behind the message, sent before the reply, reaches the server whole."""
    origin = rig.origin()
    upstream = rig.upstream()
    data = block(1 << 20, seed=1)
    request = rig.request(origin.connect())
    rig.notes.append(f"> {request.hex()} and a megabyte")
    with upstream.sending(request + data):
        downstream = origin.accept()
        downstream.expect(data, "the data at the server")
    accepted(upstream.reply())
    return brief(data)


@CHECKS.add("6")
def server_speaks_first(rig: Rig) -> str:
    """The reply is the first thing on the stream, also when the server speaks at once."""
    data = block(100_000, seed=2)
    origin = rig.origin()
    upstream = rig.ask(origin.connect())
    downstream = origin.accept()
    with downstream.sending(data):
        accepted(upstream.reply())
        upstream.expect(data, "the server's data behind the reply")
    upstream.send(DATA)
    downstream.expect(DATA, "the client's data")
    return brief(data)


@CHECKS.add("6")
def data_like_a_message(rig: Rig) -> str:
    """Data that look like a Convert message, behind the first one, pass unchanged both ways."""
    origin = rig.origin()
    lookalike = rig.request(origin.connect())
    upstream, downstream = rig.connected(lookalike, origin)
    downstream.expect(lookalike, "the data at the server")
    upstream.send(lookalike)
    downstream.expect(lookalike, "the data at the server")
    downstream.send(lookalike)
    upstream.expect(lookalike, "the data at the client")
    origin.stays_untouched(0, "no connection for what is only data")
    return "unchanged"


@CHECKS.add("4.2")
def transfer_both_ways(rig: Rig) -> str:
    """Four megabytes each way at the same time arrive whole."""
    up, down = block(LARGE, seed=3), block(LARGE, seed=4)
    upstream, downstream = rig.connected()
    with upstream.sending(up), downstream.sending(down), downstream.expecting(up, "the upload at the server"):
        upstream.expect(down, "the download at the client")
    return f"up {brief(up)}, down {brief(down)}"
