"""What one client sees of an answer, byte by byte.

    python -m experiments.probes.answer ADDRESS PORT PATH FILE    prints ready when bytes come, then one JSON line

FILE has what PATH should be. ``outcome`` is whole, reset, ended (too soon) or silent (nothing for 20 s); ``at`` when
that was (Unix time), ``bytes`` how many came, ``wrong`` whether one of them was another one than FILE's, ``pause`` the
longest time without any, in seconds.
"""

import json
import socket
import sys
import time
from pathlib import Path

_SILENCE = 20.0
_PIECE = 1 << 20


def watch(address: str, port: int, path: str, wanted: bytes) -> dict[str, object]:
    """One request by a connection of its own."""
    came, pause, outcome, wrong = 0, 0.0, "whole", False
    with socket.create_connection((address, port), _SILENCE) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
        try:
            content = _past_head(client)
            print("ready", flush=True)
            last = time.monotonic()
            while True:
                wrong |= wanted[came : came + len(content)] != content
                came += len(content)
                if came >= len(wanted):
                    break
                content = client.recv(_PIECE)
                last, pause = time.monotonic(), max(pause, time.monotonic() - last)
                if not content:
                    outcome = "ended"
                    break
        except ConnectionResetError:
            outcome = "reset"
        except TimeoutError:
            outcome = "silent"
    return {"outcome": outcome, "at": time.time(), "bytes": came, "wrong": wrong, "pause": pause}


def _past_head(client: socket.socket) -> bytes:
    """What came behind the answer's head."""
    head, end = b"", b""
    while not end:
        head += client.recv(_PIECE)
        head, end, content = head.partition(b"\r\n\r\n")
    return content


if __name__ == "__main__":
    _address, _port, _path, _file = sys.argv[1:]
    print(json.dumps(watch(_address, int(_port), _path, Path(_file).read_bytes())))
