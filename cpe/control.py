"""The control socket: ``cpe status`` asks the daemon by it, and no second daemon starts in a network namespace.

An abstract Unix socket belongs to its network namespace and goes with its process (unix(7)). Request and response are
those of the throttler's: a line of JSON, a JSON document.
"""

import errno
import json
import socket
import struct
from typing import Any

from settings.failure import Exit, Failure
from throttler.service import exchange

_NAME = "\0tributary/cpe"
_REQUEST = 4096
"""Bytes of a request."""
_PATIENCE = 10.0
"""Seconds that a command waits."""

Answer = dict[str, Any]


def server() -> exchange.Server:
    """The daemon's end; raises Failure, exit 75, if another daemon has it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(_NAME)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise Failure(Exit.IN_USE, "a cpe daemon already runs in this network namespace") from error
        raise Failure(Exit.SYSTEM, f"cannot bind the control socket: {error}") from error
    listener.listen(exchange.CONNECTIONS)
    too_long = {"failure": "the request is too long", "code": Exit.USAGE}
    return exchange.Server(listener, b"\n", _REQUEST, json.dumps(too_long).encode())


def ask(command: str) -> Answer:
    """What this network namespace's daemon answers; raises the Failure it had, or exit 69 if there is no daemon."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_PATIENCE)
        try:
            connection.connect(_NAME)
            _, user, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if user != 0:
                # Anybody can bind an abstract name that is free.
                raise Failure(Exit.UNAVAILABLE, f"the daemon's socket belongs to user {user}, not to root")
            connection.sendall(json.dumps({"command": command}).encode() + b"\n")
            answer: Answer = json.loads(b"".join(iter(lambda: connection.recv(65536), b"")))
        except ConnectionRefusedError as error:
            raise Failure(Exit.UNAVAILABLE, "no cpe daemon runs in this network namespace") from error
        except (OSError, ValueError) as error:
            raise Failure(Exit.UNAVAILABLE, f"the cpe daemon does not answer: {error}") from error
    if "failure" in answer:
        raise Failure(Exit(answer["code"]), answer["failure"])
    return answer
