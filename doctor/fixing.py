"""Runs the commands that fix what was found."""

from doctor.findings import Command
from tributary.kernel import process
from tributary.settings.errors import CommandError

_TIMEOUT = 300.0  # seconds


def run(command: Command) -> str | None:
    """Run one; what went wrong, None if nothing did. The others go on: the next examination reports what is left."""
    try:
        done = process.run(command, timeout=_TIMEOUT)
    except (OSError, CommandError) as error:
        return str(error)
    return None if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr.strip()}"
