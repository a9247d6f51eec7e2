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
from http.client import HTTPResponse
from pathlib import Path

_SILENCE = 20.0
_PIECE = 1 << 20


def watch(address: str, port: int, path: str, wanted: bytes) -> dict[str, object]:
    """One request by a connection of its own."""
    came, pause, outcome, wrong = 0, 0.0, "whole", False
    with socket.create_connection((address, port), _SILENCE) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
        try:
            response = HTTPResponse(client)
            response.begin()
            print("ready", flush=True)
            last = time.monotonic()
            while came < len(wanted):
                content = response.read1(_PIECE)
                last, pause = time.monotonic(), max(pause, time.monotonic() - last)
                if not content:
                    outcome = "ended"
                    break
                wrong |= wanted[came : came + len(content)] != content
                came += len(content)
        except ConnectionResetError:
            outcome = "reset"
        except TimeoutError:
            outcome = "silent"
    return {"outcome": outcome, "at": time.time(), "bytes": came, "wrong": wrong, "pause": pause}


if __name__ == "__main__":
    _address, _port, _path, _file = sys.argv[1:]
    print(json.dumps(watch(_address, int(_port), _path, Path(_file).read_bytes())))
