"""A call by UDP: whoever calls asks each 20 ms, and each answer names the address that the question came from.

    python -m experiments.probes.call answer ADDRESS PORT     prints ready
    python -m experiments.probes.call ask ADDRESS PORT        prints ready when it is answered, and calls until SIGTERM

The caller then prints one JSON object: "answers", each [SECONDS, ADDRESS], by the machine's monotonic clock; and how
many were "asked".
"""

import json
import selectors
import signal
import socket
import sys
import time
from contextlib import suppress

_BETWEEN = 0.02
"""Seconds, as of packets with speech."""
_LONGEST = 64
"""Bytes of a packet."""


def answer(address: str, port: int) -> None:
    """Answer without end."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mirror:
        mirror.bind((address, port))
        print("ready", flush=True)
        while True:
            _, asker = mirror.recvfrom(_LONGEST)
            mirror.sendto(asker[0].encode(), asker)


def ask(address: str, port: int) -> dict[str, object]:
    """Call until SIGTERM; returns what came of it."""
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    asked, answers = 0, list[tuple[float, str]]()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as call, selectors.DefaultSelector() as ready:
        call.setblocking(False)
        ready.register(call, selectors.EVENT_READ)
        due = time.monotonic()
        while not ended:
            if time.monotonic() >= due:
                # There may be no way out for a moment: that is what is measured.
                with suppress(OSError):
                    call.sendto(b"?", (address, port))
                asked, due = asked + 1, due + _BETWEEN
            if ready.select(max(0.0, due - time.monotonic())):
                # Also an error that an ICMP message brought.
                with suppress(OSError):
                    named = call.recv(_LONGEST).decode()
                    answers.append((time.monotonic(), named))
                    if len(answers) == 1:
                        print("ready", flush=True)
    return {"asked": asked, "answers": answers}


if __name__ == "__main__":
    if sys.argv[1] == "answer":
        answer(sys.argv[2], int(sys.argv[3]))
    else:
        print(json.dumps(ask(sys.argv[2], int(sys.argv[3]))))
