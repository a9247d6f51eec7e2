"""A daemon's TCP listener."""

import errno
import os
import socket
from contextlib import ExitStack

from tributary.settings.errors import CommandError, Exit
from tributary.settings.hosts import joined

_LATER = {socket.AF_INET: (socket.IPPROTO_IP, 15), socket.AF_INET6: (socket.IPPROTO_IPV6, 78)}
"""IP_FREEBIND, IPV6_FREEBIND (linux/in.h, in6.h): an address may come later than the daemon, as that of a LAN does."""


def listener(
    address: str, port: int, backlog: int, *, is_dual: bool = False, of: str = "", interface: str = ""
) -> socket.socket:
    """Listens there, if it ``is_dual`` at IPv6 and IPv4; raises CommandError, exit 75 if the port is taken, else 71.

    ``of`` is what a message calls what listens, such as " for metrics". With ``interface`` packets of no other one
    reach it (SO_BINDTODEVICE, socket(7)).
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with ExitStack() as undoing:
        try:
            made = undoing.enter_context(socket.socket(family, socket.SOCK_STREAM))
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.setsockopt(*_LATER[family], 1)
            if interface:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not is_dual)
            made.bind((address, port))
            made.listen(backlog)
        except OSError as error:
            code = Exit.IN_USE if error.errno == errno.EADDRINUSE else Exit.SYSTEM
            why = os.strerror(error.errno or 0)
            raise CommandError(code, f"cannot listen{of} on {joined(address, port)}: {why}") from error
        undoing.pop_all()
    return made
