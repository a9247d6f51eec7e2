"""Fixes what the console's page asks for.

systemd starts it for each connection to /run/tributary/doctor-fix.sock (tributary-doctor-fix.socket), which is its
standard input. A request is a line, the name of one of the checks that are fixed on request; the response is a line of
JSON: what was run and what is still wrong, or {"failure": MESSAGE, "code": EXIT CODE}.
"""

import shlex
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from os import dup

from doctor import fixing, lock
from doctor.examination import ON_REQUEST, Role, checks, examine, own_role, recorded
from doctor.findings import State, fixes
from doctor.record import write_findings
from tributary.api.console import Fixed, RanCommand
from tributary.api.places import EXAMINED
from tributary.daemons import control
from tributary.settings.cli import need_root, run
from tributary.settings.errors import CommandError, Exit

_LONGEST = 64  # bytes
_TIMEOUT = 5.0  # seconds, for the request to arrive and for the response to be taken


def main(_arguments: Sequence[str]) -> int:
    """Answer the request on standard input; returns 0, also for one that is refused."""
    with socket.socket(fileno=dup(0)) as connection:
        connection.settimeout(_TIMEOUT)
        try:
            answer = _fix(_word(connection)).model_dump_json().encode()
        except CommandError as error:
            print(f"refused: {error}", file=sys.stderr)
            answer = control.failed(error.code, str(error))
        except OSError as error:
            print(f"failed: {error}", file=sys.stderr)
            answer = control.failed(Exit.SYSTEM, str(error))
        with suppress(OSError):  # the peer is gone
            connection.sendall(answer + b"\n")
    return 0


def _word(connection: socket.socket) -> str:
    """The request, which comes in one piece."""
    try:
        asked = connection.recv(_LONGEST)
    except OSError as error:
        raise CommandError(Exit.USAGE, f"no request came within {_TIMEOUT:g} s") from error
    word, end, rest = asked.partition(b"\n")
    if not end or rest:
        raise CommandError(Exit.USAGE, f"{asked!r}: accepted: the name of a check, and a newline")
    return word.decode(errors="replace")


def _fix(name: str) -> Fixed:
    role = own_role()
    known = checks(role)
    if name not in known or name not in ON_REQUEST:
        accepted = ", ".join(each for each in known if each in ON_REQUEST)
        raise CommandError(Exit.USAGE, f"{name!r}: accepted for a {role.value}: {accepted}")
    need_root("to fix something")
    with lock.held(EXAMINED):
        ran = tuple(_run(name, role))
        left: tuple[str, ...] = ()
        notes: tuple[str, ...] = ()
        try:
            looks = {each: examine(role, [each]) for each in recorded(role)}
            left = tuple(finding.message for finding in looks[name] if finding.fix_name)
            unknown = (finding.message for finding in looks[name] if finding.state is State.UNKNOWN)
            notes = tuple(f"it could not be examined: {message}" for message in unknown)
            write_findings(EXAMINED, [*chain(*looks.values())], role.value, time.time())
        except (CommandError, OSError) as error:
            if not ran:
                raise
            notes = (*notes, f"what was found afterwards is not recorded: {error}")
    return Fixed(name=name, ran=ran, left=left, notes=notes)


def _run(name: str, role: Role) -> Iterator[RanCommand]:
    """Examine, and run what fixes that."""
    for command in fixes(finding for finding in examine(role, [name]) if finding.fix_name):
        failure = fixing.run(command)
        print(f"{name}: ran: {shlex.join(command)}{f': {failure}' if failure else ''}", file=sys.stderr)
        yield RanCommand(command=shlex.join(command), failure=failure)


if __name__ == "__main__":
    run(main, "doctor-fix")
