"""What ``tributary-anycast run`` writes each time that it has checked the proxies (docs/fleet.md)."""

import json
from pathlib import Path
from typing import Any

from tributary.settings.errors import CommandError, Exit

FILE = Path("/run/tributary-anycast/status.json")
_FRESH = 60.0
"""Seconds; the program that announces writes every two, and waits for BIRD for ten."""
_KEYS = ("announced", "drained", "answers")


def read(now: float) -> dict[str, Any] | None:
    """The status; None without the file, empty if that is old: then the program has ended before its time.

    ``now`` in seconds since 1970. Raises CommandError, exit 69, for a file that cannot be read.
    """
    try:
        written = json.loads(FILE.read_bytes())
        status = {key: written[key] for key in _KEYS} | {"heard": written.get("heard", True)}
        return status if 0 <= now - written["time"] < _FRESH else {}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise CommandError(Exit.UNAVAILABLE, f"{FILE} cannot be read ({type(error).__name__})") from error
