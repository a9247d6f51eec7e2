"""Errors of commands, and their exit codes.

The codes are those of sysexits.h, so that scripts and service managers can tell them apart:

====  ==========================================================================
code  meaning
====  ==========================================================================
1     the work was done and its result is wrong (a checksum, a failed self-check)
3     the work was done and its result is unsure: measured too seldom, or not possible to look
64    wrong arguments or a wrong settings file; nothing was touched
65    an input file holds data that is not accepted; nothing was touched
66    an input file is missing or cannot be read
69    something needed is missing: a tool, a kernel feature, an interface
71    the system refused an operation
75    in use, or too busy to measure on: a port, a name, a second instance, a machine; try again later
77    not root
130   ended by Ctrl-C; 143 by SIGTERM
====  ==========================================================================
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from tributary.settings.secrets import without_secrets


class Exit(IntEnum):
    """Exit codes of every Tributary command."""

    WRONG_RESULT = 1
    UNDECIDED = 3
    USAGE = 64
    BAD_DATA = 65
    NO_INPUT = 66
    UNAVAILABLE = 69
    SYSTEM = 71
    IN_USE = 75
    NO_PERMISSION = 77
    INTERRUPTED = 130
    TERMINATED = 143


class CommandError(Exception):
    """An error that a user can act on: a one-line message and an exit code."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def refused(code: Exit, where: object, what: str = "cannot be read") -> Iterator[None]:
    """An OSError of the block becomes a CommandError: of the file that it names, or of ``where``."""
    try:
        yield
    except OSError as error:
        message = filter(None, (str(error.filename or where), what, str(error.strerror)))
        raise CommandError(code, ": ".join(message)) from error


def invalid_value(where: str, key: str, value: object, accepted: str) -> CommandError:
    """The error for a wrong setting: file, key, value unless it is secret, and what is accepted."""
    return CommandError(Exit.USAGE, f"{where}: {key} = {without_secrets(key, value)!r}: accepted: {accepted}")
