"""UDP at more than a link's rate, and what of it arrives, in IP bytes.

    python -m experiments.probes.flood send ADDRESS PORT BITS_PER_SECOND SECONDS
    python -m experiments.probes.flood receive ADDRESS PORT SILENCE               prints ready, then one JSON line
    python -m experiments.probes.flood arrivals ADDRESS PORT SETTLING SECONDS     prints ready, then one JSON line

``receive`` measures ``bits_per_second`` from the first packet to the last, and ends when none has come for SILENCE
seconds.
For ``arrivals`` the first packet starts the clock: after SETTLING seconds, for SECONDS, ``bytes`` gets those of each
millisecond.
"""

import json
import math
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

_PAYLOAD = 1400
_HEADERS = 20 + 8  # IPv4 and UDP
PACKET = _PAYLOAD + _HEADERS
"""IP bytes of each packet."""
_FIRST = 15.0  # seconds until the first packet


def send(address: str, port: int, bits_per_second: float, seconds: float) -> None:
    """Send evenly, in bursts of at most a millisecond's worth, until the time is over or nobody receives any more."""
    packet = bytes(_PAYLOAD)
    per_second = bits_per_second / 8 / PACKET
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender, suppress(ConnectionRefusedError):
        sender.connect((address, port))
        start, sent = time.monotonic(), 0
        while (elapsed := time.monotonic() - start) < seconds:
            while sent < elapsed * per_second:
                sender.send(packet)
                sent += 1
            time.sleep(0.001)


def _packets(address: str, port: int, silence: float, seconds: float) -> Iterator[tuple[float, int]]:
    """Time and IP bytes of each packet, for so many ``seconds`` from the first on, or until none comes for a while."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver, suppress(TimeoutError):
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        receiver.bind((address, port))
        print("ready", flush=True)
        wait, end = _FIRST, math.inf
        while wait > 0:
            receiver.settimeout(wait)
            size = len(receiver.recv(_PAYLOAD)) + _HEADERS
            now = time.monotonic()
            yield now, size
            end = min(end, now + seconds)
            wait = min(silence, end - time.monotonic())


def receive(address: str, port: int, silence: float) -> float:
    """The arrival rate in IP bits per second; 0 if fewer than two packets came."""
    arrived = list(_packets(address, port, silence, math.inf))
    if len(arrived) < 2:
        return 0
    (first, size), (last, _) = arrived[0], arrived[-1]
    return 8 * (sum(each for _, each in arrived) - size) / (last - first)


def arrivals(address: str, port: int, settling: float, seconds: float) -> list[int]:
    """The IP bytes in each millisecond; none if no packet comes."""
    counts = [0] * round(1000 * seconds)
    packets = _packets(address, port, math.inf, settling + seconds)
    first, _ = next(packets, (math.inf, 0))
    for at, size in packets:
        millisecond = math.floor(1000 * (at - first - settling))
        if 0 <= millisecond < len(counts):
            counts[millisecond] += size
    return counts


def main(what: str, address: str, port: str, *numbers: str) -> None:
    """One end."""
    if what == "send":
        send(address, int(port), *map(float, numbers))
    elif what == "receive":
        print(json.dumps({"bits_per_second": receive(address, int(port), *map(float, numbers))}))
    else:
        print(json.dumps({"bytes": arrivals(address, int(port), *map(float, numbers))}))


if __name__ == "__main__":
    main(*sys.argv[1:])
