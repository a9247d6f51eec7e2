"""Checks of this machine; they change nothing, and raise CommandError if Squid could not run here."""

import errno
import ipaddress
import json
import pwd
import socket
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from squid.settings import SquidSettings
from tributary.daemons import directories
from tributary.kernel.process import output
from tributary.settings.errors import CommandError, Exit
from tributary.settings.hosts import Address

USER = "proxy"  # Debian's Squid runs as this user, and the guard knows Squid's connections by it
TOOLS = ("squid", "nft", "mptcpize", "ip", "ss")


def own_addresses() -> list[Address]:
    """Every address of this network namespace; raises CommandError (69, 71) without a working ip(8)."""
    shown = output(["ip", "-json", "address", "show"])
    entries = [entry for link in json.loads(shown) for entry in link.get("addr_info", [])]
    return [ipaddress.ip_address(entry["local"]) for entry in entries]


def require_user() -> None:
    """Raise CommandError (69) unless Squid's user exists."""
    try:
        pwd.getpwnam(USER)
    except KeyError as error:
        raise CommandError(Exit.UNAVAILABLE, f"the user {USER} is missing: Debian's package squid makes it") from error


def require_state(settings: SquidSettings) -> None:
    """Raise CommandError (75) while another Squid uses these files, also one that only drains."""
    pid = _squid_of(settings.paths.pid)
    if pid is not None:
        raise _state_in_use(settings, f"Squid, process {pid}, also while it only lets transfers end")
    with suppress(FileNotFoundError), locked_state(settings):
        pass


def locked_state(settings: SquidSettings) -> AbstractContextManager[int]:
    """The descriptor of a lock beside the pid file, which Squid inherits: locked until both have ended.

    Unlike the pid file it exists from the first moment to the last. Raises CommandError (75) if another `squid run`
    holds it, and FileNotFoundError without the folder.
    """
    taken = str(_state_in_use(settings, "another `squid run`, which starts or ends"))
    return directories.lock_file(settings.paths.pid.with_suffix(".lock"), taken=taken)


def _squid_of(pid_file: Path) -> int | None:
    """The process in ``pid_file``, if it is a Squid: after a crash the number may belong to another program."""
    try:
        pid = int(pid_file.read_text())
        return pid if Path(f"/proc/{pid}/comm").read_text() == "squid\n" else None
    except (OSError, ValueError):
        return None


def _state_in_use(settings: SquidSettings, by: str) -> CommandError:
    folder = settings.state_directory or settings.paths.logs
    other = "another state_directory" if settings.state_directory else "a state_directory"
    return CommandError(Exit.IN_USE, f"{folder} is in use by {by}: wait until it has ended, or set {other}")


def require_free(settings: SquidSettings) -> None:
    """Raise CommandError unless Squid can listen: 75 for a port in use, 69 for an address that this machine lacks."""
    for address, port in settings.sockets:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((address, port))
        except OSError as error:
            raise _cannot_listen(address, port, error) from error


def _cannot_listen(address: str, port: int, error: OSError) -> CommandError:
    where = f"port {port} of {'every address' if address == '::' else address}"
    if error.errno == errno.EADDRINUSE:
        return CommandError(Exit.IN_USE, f"{where} is in use: `ss -tlnp sport = :{port}` shows the program")
    if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
        return CommandError(Exit.UNAVAILABLE, f"cannot listen on {where}: no such address here (see the key listen)")
    return CommandError(Exit.SYSTEM, f"cannot listen on {where}: {error.strerror}")
