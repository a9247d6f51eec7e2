"""A server of plain TCP, and a client of Multipath TCP that downloads by an HTTP proxy; each a process of its own.

transfer.py serve ADDRESS PORT
transfer.py fetch PROXY PORT URL    prints one JSON object: bytes, sha256, seconds, and bytes by interface
"""

import hashlib
import http.server
import json
import socket
import sys
import time
from pathlib import Path

SIZE = 4_000_000
_PIECE = hashlib.sha256(b"tributary").digest() * 2000


def content() -> bytes:
    """What the server gives: no two kilobytes of it are the same."""
    body = b"".join(number.to_bytes(8, "big") + _PIECE for number in range(SIZE // len(_PIECE) + 1))
    return body[:SIZE]


class Handler(http.server.BaseHTTPRequestHandler):
    """Gives the content to everybody."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(SIZE))
        self.end_headers()
        self.wfile.write(content())

    def log_message(self, *_: object) -> None:
        """Silence."""


def fetch(proxy: str, port: int, url: str) -> dict[str, object]:
    """Download ``url`` over one connection of Multipath TCP to the proxy."""
    before, began = _received(), time.monotonic()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP) as connection:
        connection.settimeout(120)
        connection.connect((proxy, port))
        host = url.split("/")[2]
        connection.sendall(f"GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(1 << 18), b""))
    seconds = time.monotonic() - began
    head, _, body = answer.partition(b"\r\n\r\n")
    after = _received()
    return {
        "status": head.partition(b"\r\n")[0].decode(),
        "whole": hashlib.sha256(body).digest() == hashlib.sha256(content()).digest(),
        "bytes": len(body),
        "seconds": round(seconds, 2),
        "received": {name: after[name] - before[name] for name in after},
    }


def _received() -> dict[str, int]:
    folders = (path for path in Path("/sys/class/net").iterdir() if path.name != "lo")
    return {path.name: int((path / "statistics/rx_bytes").read_text()) for path in folders}


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        http.server.ThreadingHTTPServer((sys.argv[2], int(sys.argv[3])), Handler).serve_forever()
    print(json.dumps(fetch(sys.argv[2], int(sys.argv[3]), sys.argv[4])))
