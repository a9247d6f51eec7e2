"""Asks the doctor, which is root, to fix something: a word to a socket of systemd's, a line of JSON back."""

import json
import socket

from pydantic import ValidationError

from tributary.api.console import Fixed
from tributary.api.places import FIXES
from tributary.daemons.control import Silent
from tributary.settings.errors import CommandError, Exit

_PATIENCE = 55.0
"""Seconds: it examines the machine twice, and may start a service. The page waits for a minute."""
_LONGEST = 1 << 20


def ask(name: str) -> Fixed:
    """Have it fix what has this ``fix_name``; raises the CommandError that it reports, exit 69 where it is away,
    Silent where it was asked, and may have run commands, and no answer of it could be read.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_PATIENCE)
        try:
            connection.connect(str(FIXES))
        except OSError as error:
            away = f"{FIXES}: {error.strerror or error}: is tributary-doctor-fix.socket active?"
            raise CommandError(Exit.UNAVAILABLE, away) from error
        return _read(_answer(connection, name))


def _answer(connection: socket.socket, name: str) -> bytes:
    try:
        connection.sendall(name.encode() + b"\n")
        with connection.makefile("rb") as answers:
            return answers.read(_LONGEST)
    except TimeoutError as error:
        late = f"the doctor has not answered within {_PATIENCE:g} s, and goes on: its findings will tell"
        raise Silent(late) from error
    except OSError as error:
        raise Silent(f"the connection to the doctor broke: {error.strerror}") from error


def _read(answer: bytes) -> Fixed:
    if not answer:
        raise Silent("the doctor has closed the connection: too many ask at once, or it failed")
    try:
        document = json.loads(answer)
        if "failure" in document:
            raise CommandError(Exit(document["code"]), str(document["failure"]))
        return Fixed.model_validate(document)
    except (ValidationError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise Silent("the doctor does not answer in words of this version") from error
