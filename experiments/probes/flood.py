"""UDP at more than a link's rate, and the rate at which it arrives.

    python -m experiments.probes.flood receive ADDRESS PORT     prints ready, then one JSON line
    python -m experiments.probes.flood send ADDRESS PORT BITS_PER_SECOND SECONDS

The receiver measures from the first packet to the last, in IP bytes; it ends when none has come for a while.
"""

import json
import socket
import sys
import time
from contextlib import suppress

_PAYLOAD = 1400
_HEADERS = 20 + 8  # IPv4 and UDP
_SILENCE = 0.3  # seconds without a packet after which the flood is over


def send(address: str, port: int, bits_per_second: float, seconds: float) -> None:
    """Send evenly, in bursts of at most a millisecond's worth, until the time is over or nobody receives any more."""
    packet = bytes(_PAYLOAD)
    per_second = bits_per_second / 8 / (_PAYLOAD + _HEADERS)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender, suppress(ConnectionRefusedError):
        sender.connect((address, port))
        start, sent = time.monotonic(), 0
        while (elapsed := time.monotonic() - start) < seconds:
            while sent < elapsed * per_second:
                sender.send(packet)
                sent += 1
            time.sleep(0.001)


def receive(address: str, port: int) -> float:
    """The arrival rate in IP bits per second; 0 if fewer than two packets came within five seconds."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        receiver.bind((address, port))
        receiver.settimeout(5)
        print("ready", flush=True)
        count, first, last = 0, 0.0, 0.0
        try:
            while True:
                receiver.recv(_PAYLOAD)
                last = time.monotonic()
                first = first or last
                count += 1
                receiver.settimeout(_SILENCE)
        except TimeoutError:
            pass
    return 8 * (count - 1) * (_PAYLOAD + _HEADERS) / (last - first) if count > 1 else 0


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))
    else:
        print(json.dumps({"bits_per_second": receive(sys.argv[2], int(sys.argv[3]))}))
