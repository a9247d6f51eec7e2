"""The kernel's settings: sysctl(8), in this network namespace."""

from pathlib import Path

from tributary.settings.errors import CommandError, Exit

ROOT = Path("/proc/sys")


def read(name: str) -> str | None:
    """The value of a setting, such as ``net/ipv4/ip_forward``, its words with single blanks; None if it is missing."""
    try:
        return " ".join((ROOT / name).read_text(encoding="ascii").split())
    except OSError:
        return None


def number(name: str) -> int | None:
    """The number in a setting; None if it is missing, or no number."""
    try:
        return int(read(name) or "")
    except ValueError:
        return None


def write(name: str, value: int) -> None:
    """Set it; raises CommandError, exit 71."""
    try:
        (ROOT / name).write_text(f"{value}\n")
    except OSError as error:
        raise CommandError(Exit.SYSTEM, f"{name.replace('/', '.')} cannot be set: {error.strerror}") from error
