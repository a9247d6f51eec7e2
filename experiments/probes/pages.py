"""Holds many of the console's pages open at once.

    python -m experiments.probes.pages ADDRESS:PORT PAGES SECONDS

Prints one JSON object, of all pages together: {"looks": COUNT, "bytes": COUNT, "kb": KILOBYTES OF A PAGE'S FILES}
"""

import asyncio
import json
import re
import sys
from contextlib import suppress
from urllib.request import urlopen

_FILE = re.compile(rb"(?:src|href)=\"(/static/[^\"]+)\"|from \"\./([^\"]+)\"")


def main(server: str, pages: str, seconds: str) -> None:
    """Hold so many for so long."""
    looks, octets = asyncio.run(_open(server, int(pages), float(seconds)))
    print(json.dumps({"looks": looks, "bytes": octets, "kb": _weight(server) / 1000}))


async def _open(server: str, pages: int, seconds: float) -> tuple[int, int]:
    counts = await asyncio.gather(*(_page(server, seconds) for _ in range(pages)))
    return sum(looks for looks, _ in counts), sum(octets for _, octets in counts)


async def _page(server: str, seconds: float) -> tuple[int, int]:
    host, port = server.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET /api/v1/stream HTTP/1.1\r\nHost: {server}\r\n\r\n".encode())
    looks = octets = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while data := await reader.read(1 << 20):
                looks, octets = looks + data.count(b"event: look\n"), octets + len(data)
    writer.close()
    return looks, octets


def _weight(server: str) -> int:
    """Bytes of all that a browser loads for the page."""
    loaded: dict[str, bytes] = {}
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        if path not in loaded:
            with urlopen(f"http://{server}{path}") as answer:
                loaded[path] = answer.read()
            found = _FILE.findall(loaded[path])
            waiting += [(whole or b"/static/" + beside).decode() for whole, beside in found]
    return sum(map(len, loaded.values()))


if __name__ == "__main__":
    main(*sys.argv[1:])
