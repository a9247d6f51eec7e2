"""Control sockets, by which commands reach a daemon; they also exclude a second one in a network namespace.

The socket is the file NAME.NAMESPACE.sock in /run/tributary, which only root can write, or in the daemon's own folder
if it does not run as root. NAMESPACE is the number
of the network namespace (socket(7), SO_NETNS_COOKIE), so that daemons of several, as in a testbed, do not meet.
NAME.sock is a link to it, made by the first of them; on most machines there is one. The file is for root, and for the
group ``tributary`` if the machine has one.

A request is one line of JSON, {"command": NAME, ...}; the response is a JSON document and the end of the stream: what
was asked for, or {"failure": MESSAGE, "code": EXIT CODE}. Others than root may only run the unprivileged commands;
members of the group ``tributary-steer``, such as the console, also those that steer.
"""

import grp
import json
import math
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tributary.daemons import directories
from tributary.settings.errors import CommandError, Exit

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tributary.daemons.request_server import Server

GROUP = "tributary"
"""Members of this group may connect."""
STEERING_GROUP = "tributary-steer"
"""Members of this group may run the commands that steer."""
_SO_PEERGROUPS = 59
"""The supplementary groups of a peer (asm-generic/socket.h, since Linux 4.13)."""
_LONGEST_OPTION = 1024
"""Bytes, what Python allows: 256 groups."""
_QUEUE = 128
"""Connections that may wait to be accepted."""


class Silent(CommandError):
    """A daemon runs, and does not answer, or not in words of this version; exit 69 as where none runs."""

    def __init__(self, message: str) -> None:
        super().__init__(Exit.UNAVAILABLE, message)


Request = dict[str, Any]
Response = dict[str, Any]
Handler = Callable[[Request], "Response | Future[bytes]"]
"""From a request to the response; a Future is the whole response, as JSON, later."""


@dataclass(frozen=True)
class Control:
    """The control socket ``name`` of a daemon, which messages call ``daemon``.

    A request has ``longest`` bytes at most; a command waits for ``timeout`` seconds. ``own_folder`` is that
    of a daemon that does not run as root. ``unprivileged`` are the commands that all may run who may connect,
    ``steering`` those of the group that steers, ``privileged`` those of root alone.
    """

    name: str
    daemon: str
    longest: int
    timeout: float
    own_folder: Path | None = None
    unprivileged: tuple[str, ...] = ()
    steering: tuple[str, ...] = ()
    privileged: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return self.own_folder or directories.RUN

    @property
    def path(self) -> Path:
        """The socket of this network namespace's daemon."""
        return _path(self.folder, self.name)

    @contextmanager
    def server(self) -> Iterator["Server"]:
        """The daemon's server, for the length of the block; raises CommandError, exit 75, if another daemon has it."""
        # Not at the top: who asks needs no server.
        from tributary.daemons.request_server import Server

        path, link = self.path, self.folder / f"{self.name}.sock"
        try:
            directories.make_run(self.folder)
            with directories.lock_file(self.folder / f"{self.name}.lock", wait=True):
                if _listens(path):
                    raise CommandError(Exit.IN_USE, f"a {self.daemon} already runs in this network namespace")
                listener = _bound(path)
                if not _listens(link):
                    link.unlink(missing_ok=True)
                    link.symlink_to(path.name)
        except OSError as error:
            raise CommandError(Exit.SYSTEM, f"{path}: cannot make the control socket: {error.strerror}") from error
        too_long = failed(Exit.USAGE, "the request is too long")
        with Server(listener, b"\n", self.longest, too_long, prefers=_is_root) as server:
            try:
                yield server
            finally:
                # While it listens nobody takes its place, whose files these would be.
                with suppress(OSError):
                    if link.is_symlink() and link.readlink() == Path(path.name):
                        link.unlink()
                    path.unlink()

    def respond(self, request: bytes, peer: socket.socket, handle: Handler) -> "bytes | Future[bytes]":
        """The response to ``request``, for which ``handle`` does what is asked, or to its CommandError."""
        try:
            asked = json.loads(request)
            command = asked["command"]
            if not (command in self.unprivileged or _is_root(peer) or (command in self.steering and _steers(peer))):
                raise CommandError(Exit.NO_PERMISSION, f"{self.name} {command} needs root: use sudo")
            if command not in (*self.unprivileged, *self.steering, *self.privileged):
                raise CommandError(Exit.USAGE, f"the {self.daemon} that runs has no command {command!r}")
            answer = handle(asked)
            return json.dumps(answer).encode() if isinstance(answer, dict) else answer
        except REFUSED as error:
            return refused(error)

    def ask(self, command: str, **arguments: object) -> Response:
        """The response of this network namespace's daemon; raises the CommandError that it reports.

        Without a daemon the exit code is 69, also where it is Silent; without permission 77.
        """
        request = json.dumps({"command": command, **arguments}).encode() + b"\n"
        try:
            answer: Response = exchanged(self.path, request, self.timeout)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise CommandError(Exit.UNAVAILABLE, f"no {self.daemon} runs in this network namespace") from error
        except PermissionError as error:
            message = f"{self.name} {command} needs root or the group {GROUP}: use sudo"
            raise CommandError(Exit.NO_PERMISSION, message) from error
        except (OSError, ValueError, RecursionError) as error:
            raise Silent(f"the {self.daemon} does not answer: {error}") from error
        if not isinstance(answer, dict) or ("failure" in answer and answer.get("code") not in list(Exit)):
            raise Silent(f"the {self.daemon} does not answer in words of this version")
        if "failure" in answer:
            raise CommandError(Exit(answer["code"]), answer["failure"])
        return answer


def exchanged(path: Path, request: bytes, timeout: float) -> Any:
    """What a program answers at its socket, as JSON, in so many seconds; raises OSError, ValueError, RecursionError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        # A time-out of Python's would refuse to wait for room in the program's queue (connect(2), EAGAIN).
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(timeout), 0))
        connection.connect(str(path))
        connection.settimeout(timeout)
        if request:  # else the program may have answered by now and closed, and sending nothing would fail
            connection.sendall(request)
        return json.loads(b"".join(iter(lambda: connection.recv(65536), b"")))


REFUSED = (CommandError, ValueError, KeyError, TypeError, OverflowError, RecursionError)
"""Exceptions of a handler for a request that is refused."""


def refused(error: Exception) -> bytes:
    """The response for one of ``REFUSED``."""
    if isinstance(error, CommandError):
        return failed(error.code, str(error))
    return failed(Exit.USAGE, f"not a request: {error!r}")


def failed(code: Exit, message: str) -> bytes:
    """The response for a failure."""
    return json.dumps({"failure": message, "code": code}).encode()


def trial_seconds(asked: Request) -> float:
    """How long the settings of a request are on trial; raises one of ``REFUSED`` if it does not say that."""
    seconds = float(asked["seconds"])
    if not 0 <= seconds < math.inf:
        raise CommandError(Exit.USAGE, f"seconds = {seconds}: accepted: a number from 0")
    return seconds


def is_served(name: str) -> bool:
    """Whether the daemon ``name`` listens in this network namespace.

    What /proc/net/unix lists proves nothing: anyone may bind a path that ends in this one, behind a blank or a newline.
    """
    return _listens(place(name))


def place(name: str) -> Path:
    """Where a program ``name`` of this network namespace listens."""
    return _path(directories.RUN, name)


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.{directories.namespace()}.sock"


def _listens(path: Path) -> bool:
    """Whether a daemon listens there, rather than a killed one that left the file."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as tried:
        tried.setblocking(False)
        try:
            tried.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:
            # Its queue is full.
            return True
        return True


def _bound(path: Path) -> socket.socket:
    """A listener at ``path``, which replaces an existing file."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
        listener.listen(_QUEUE)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    # Without the group, or the right to set it, only root may connect.
    with suppress(KeyError, PermissionError):
        os.chown(path, -1, grp.getgrnam(GROUP).gr_gid)
        path.chmod(0o660)
    return listener


def _is_root(connection: socket.socket) -> bool:
    return bool(struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1] == 0)


def _steers(connection: socket.socket) -> bool:
    try:
        steering = grp.getgrnam(STEERING_GROUP).gr_gid
    except KeyError:
        return False
    try:
        groups = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _LONGEST_OPTION)
    except OSError:  # ERANGE: it has more
        return False
    return steering in struct.unpack(f"{len(groups) // 4}I", groups)
