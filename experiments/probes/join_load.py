"""New MPTCP sessions at an even pace, each of which joins as often as the kernel's endpoints say.

    python -m experiments.probes.join_load ADDRESS PORT PER_SECOND SECONDS    prints one JSON line

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
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP) as session:
        session.setblocking(False)
        # Python's sock_connect() asks the resolver, who does not know MPTCP.
        session.connect_ex((address, port))
        try:
            await asyncio.wait_for(asyncio.get_running_loop().sock_sendall(session, b"x"), _LIFETIME)
        except OSError:  # as is TimeoutError
            return False
        await asyncio.sleep(_LIFETIME)
    return True


if __name__ == "__main__":
    # A session for each that lives at a time.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    where, port, *numbers = sys.argv[1:]
    print(json.dumps(asyncio.run(open_sessions(where, int(port), *map(float, numbers)))))
