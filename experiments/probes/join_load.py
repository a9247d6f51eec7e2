"""New MPTCP sessions at an even pace, each of which joins as often as the kernel's endpoints say.

    python -m experiments.probes.join_load accept ADDRESS PORT                     prints ready, runs until SIGTERM
    python -m experiments.probes.join_load open ADDRESS PORT PER_SECOND SECONDS    prints one JSON line

Open loop: a session starts when its time has come, whether others did well or not, and lives for some 1.5 seconds. It
sends one byte, since a client joins only after the listener has acknowledged data (RFC 8684 section 3.1).
"""

import asyncio
import json
import resource
import socket
import sys
import time
from contextlib import suppress

_LIFETIME = 1.5


async def accept(address: str, port: int) -> None:
    """Take every connection, read it to its end, close it."""
    with _socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        server = await asyncio.start_server(_until_its_end, sock=listener, backlog=4096)
        print("ready", flush=True)
        await server.serve_forever()


async def _until_its_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        await reader.read()
    writer.close()


async def open_sessions(address: str, port: int, per_second: float, seconds: float) -> dict[str, int]:
    """How many sessions were opened, and how many of them could not connect."""
    start, sessions = time.monotonic(), list[asyncio.Task[bool]]()
    while (now := time.monotonic() - start) < seconds:
        while len(sessions) <= now * per_second:
            sessions.append(asyncio.create_task(_session(address, port)))
        await asyncio.sleep((len(sessions) / per_second) - now)
    return {"opened": len(sessions), "failed": (await asyncio.gather(*sessions)).count(False)}


async def _session(address: str, port: int) -> bool:
    """Whether it could connect and send."""
    with _socket() as session:
        # Python's sock_connect() asks the resolver, who does not know MPTCP.
        session.connect_ex((address, port))
        try:
            await asyncio.wait_for(asyncio.get_running_loop().sock_sendall(session, b"x"), _LIFETIME)
        except OSError:  # as is TimeoutError
            return False
        await asyncio.sleep(_LIFETIME)
    return True


def _socket() -> socket.socket:
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
    connection.setblocking(False)
    return connection


def _raise_descriptors() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main(what: str, address: str, port: str, *numbers: str) -> None:
    """One end."""
    _raise_descriptors()
    if what == "accept":
        asyncio.run(accept(address, int(port)))
    else:
        print(json.dumps(asyncio.run(open_sessions(address, int(port), *map(float, numbers)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
