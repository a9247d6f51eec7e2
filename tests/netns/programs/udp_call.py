"""A call by UDP: asks HOST PORT each 20 ms, and each answer names the address from which the server was asked.

Prints ``ready`` after the first answer; then, for each line of its input, the longest time without an answer so far in
seconds, and the addresses that it was known by.
"""

import selectors
import socket
import sys
import time
from contextlib import suppress

_BETWEEN = 0.02


def main(host: str, port: str) -> None:
    call = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    call.setblocking(False)
    with selectors.DefaultSelector() as ready:
        ready.register(call, selectors.EVENT_READ)
        ready.register(0, selectors.EVENT_READ)
        known: dict[str, None] = {}
        last, longest, due = time.monotonic(), 0.0, 0.0
        while True:
            now = time.monotonic()
            if now >= due:
                due = now + _BETWEEN
                # There may be no way out for a moment: that is what is measured.
                with suppress(OSError):
                    call.sendto(b"?", (host, int(port)))
            for key, _ in ready.select(max(0.0, due - time.monotonic())):
                if key.fd == 0:
                    if not sys.stdin.readline():
                        return
                    print(f"{max(longest, time.monotonic() - last):.3f}", *known, flush=True)
                    continue
                try:
                    answer = call.recv(64).decode()
                except OSError:
                    continue
                now = time.monotonic()
                if not known:
                    print("ready", flush=True)
                else:
                    longest = max(longest, now - last)
                known[answer], last = None, now


main(*sys.argv[1:])
