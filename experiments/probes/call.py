"""A call by UDP: whoever calls asks each 20 ms; each answer names when it was asked, and from which address that came.

    python -m experiments.probes.call answer ADDRESS PORT     prints ready
    python -m experiments.probes.call ask ADDRESS PORT        prints ready when it is answered, and calls until SIGTERM

The caller then prints one JSON object: "answers", each [SECONDS, ADDRESS], by the machine's monotonic clock; "waits",
for each of these [SECONDS, SECONDS]: when it came, and what it took; and how many were "asked".
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
            question, asker = mirror.recvfrom(_LONGEST)
            mirror.sendto(b"%s %s" % (question, asker[0].encode()), asker)


def ask(address: str, port: int) -> dict[str, object]:
    """Call until SIGTERM; returns what came of it."""
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    asked, answers, waits = 0, list[tuple[float, str]](), list[tuple[float, float]]()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as call, selectors.DefaultSelector() as ready:
        call.setblocking(False)
        ready.register(call, selectors.EVENT_READ)
        due = time.monotonic()
        while not ended:
            if time.monotonic() >= due:
                # There may be no way out for a moment: that is what is measured.
                with suppress(OSError):
                    call.sendto(b"%.6f" % time.monotonic(), (address, port))
                asked, due = asked + 1, due + _BETWEEN
            if ready.select(max(0.0, due - time.monotonic())):
                # Also an error that an ICMP message brought.
                with suppress(OSError):
                    sent, named = call.recv(_LONGEST).decode().split()
                    answers.append((time.monotonic(), named))
                    waits.append((answers[-1][0], answers[-1][0] - float(sent)))
                    if len(answers) == 1:
                        print("ready", flush=True)
    return {"asked": asked, "answers": answers, "waits": waits}


if __name__ == "__main__":
    if sys.argv[1] == "answer":
        answer(sys.argv[2], int(sys.argv[3]))
    else:
        print(json.dumps(ask(sys.argv[2], int(sys.argv[3]))))
