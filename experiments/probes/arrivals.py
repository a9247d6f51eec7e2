"""What arrives by UDP, millisecond by millisecond.

    python -m experiments.probes.arrivals ADDRESS PORT SETTLING SECONDS     prints ready, then one JSON line

The first packet starts the clock. After SETTLING seconds, for SECONDS, ``bytes`` gets the IP bytes of each millisecond.
experiments/probes/flood.py sends.
"""

import json
import math
import socket
import sys
import time
from contextlib import suppress

_LARGEST = 1500
_HEADERS = 20 + 8  # IPv4 and UDP
_TIMEOUT = 15  # seconds until the first packet


def receive(address: str, port: int, settling: float, seconds: float) -> list[int]:
    """The IP bytes in each millisecond; none if no packet comes within fifteen seconds."""
    counts = [0] * round(1000 * seconds)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        receiver.bind((address, port))
        receiver.settimeout(_TIMEOUT)
        print("ready", flush=True)
        with suppress(TimeoutError):
            receiver.recv(_LARGEST)
            begin = time.monotonic() + settling
            while (left := begin + seconds - time.monotonic()) > 0:
                receiver.settimeout(left)
                payload = receiver.recv(_LARGEST)
                millisecond = math.floor(1000 * (time.monotonic() - begin))
                if 0 <= millisecond < len(counts):
                    counts[millisecond] += len(payload) + _HEADERS
    return counts


if __name__ == "__main__":
    print(json.dumps({"bytes": receive(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))}))
