"""Control sockets: other commands ask a daemon, and no second one starts in a network namespace.

An abstract Unix socket belongs to its network namespace and goes with its process (unix(7)), so nothing is left to
clean up. A request is one line of JSON, {"command": NAME, ...}; the response is a JSON document and the end of the
stream: what was asked for, or {"failure": MESSAGE, "code": EXIT CODE}. Who is not root may ask, and change nothing.
"""

import errno
import json
import socket
import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from tributary.daemons import exchange
from tributary.settings.failure import Exit, Failure

Answer = dict[str, Any]
Handler = Callable[[Answer], Answer]


@dataclass(frozen=True)
class Control:
    """The socket of the ``daemon``, as messages call it, under its ``name``.

    A request has ``longest`` bytes at most; a command waits for ``timeout`` seconds.
    """

    name: str
    daemon: str
    longest: int
    timeout: float

    def server(self) -> exchange.Server:
        """The daemon's end; raises Failure, exit 75, if another daemon has it."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(self._address)
        except OSError as error:
            listener.close()
            if error.errno == errno.EADDRINUSE:
                raise Failure(Exit.IN_USE, f"a {self.daemon} already runs in this network namespace") from error
            raise Failure(Exit.SYSTEM, f"cannot bind the control socket: {error}") from error
        listener.listen(exchange.CONNECTIONS)
        return exchange.Server(listener, b"\n", self.longest, _failed(Exit.USAGE, "the request is too long"))

    def respond(self, request: bytes, asker: socket.socket, handle: Handler, for_anybody: Collection[str]) -> bytes:
        """The response to ``request``, for which ``handle`` does what is asked; its Failure becomes the response."""
        try:
            asked = json.loads(request)
            if asked["command"] not in for_anybody and _user(asker) != 0:
                raise Failure(Exit.NO_PERMISSION, f"{self.name} {asked['command']} needs root: use sudo")
            return json.dumps(handle(asked)).encode()
        except Failure as failure:
            return _failed(failure.code, str(failure))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            return _failed(Exit.USAGE, f"not a request: {error!r}")

    def ask(self, command: str, **arguments: object) -> Answer:
        """What this network namespace's daemon answers; raises the Failure it had, or exit 69 if there is no daemon."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(self.timeout)
            try:
                connection.connect(self._address)
                if (user := _user(connection)) != 0:
                    # Anybody can bind an abstract name that is free.
                    message = f"the {self.daemon}'s socket belongs to user {user}, not to root"
                    raise Failure(Exit.UNAVAILABLE, message)
                connection.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
                answer: Answer = json.loads(b"".join(iter(lambda: connection.recv(65536), b"")))
            except ConnectionRefusedError as error:
                raise Failure(Exit.UNAVAILABLE, f"no {self.daemon} runs in this network namespace") from error
            except (OSError, ValueError) as error:
                raise Failure(Exit.UNAVAILABLE, f"the {self.daemon} does not answer: {error}") from error
        if "failure" in answer:
            raise Failure(Exit(answer["code"]), answer["failure"])
        return answer

    @property
    def _address(self) -> str:
        return f"\0tributary/{self.name}"


def _failed(code: Exit, message: str) -> bytes:
    return json.dumps({"failure": message, "code": code}).encode()


def _user(connection: socket.socket) -> int:
    return int(struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1])
