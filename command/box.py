"""What runs on this box, and what it answers."""

import json
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from command import mapping
from router.control import CONTROL as ROUTER
from throttler.service import status
from throttler.service.control import CONTROL as THROTTLER
from throttler.service.status import Status
from tributary.api.documents import Link, Service, Session
from tributary.kernel import process
from tributary.paths import ROOT
from tributary.settings.errors import CommandError, Exit

CONVERTER = Path("/run/tributary-converter/control.sock")
_ANSWER_TIMEOUT = 5.0

_T = TypeVar("_T")


def throttler() -> Status:
    """The throttler's status; raises CommandError, exit 69, where none runs."""
    return status.decode(THROTTLER.ask("status"))


def router() -> dict[str, Any]:
    """The router daemon's status; raises CommandError, exit 69, where none runs."""
    return ROUTER.ask("status")


def converter() -> dict[str, Any]:
    """The native converter's status; raises CommandError, exit 69, where none runs."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_ANSWER_TIMEOUT)
            connection.connect(str(CONVERTER))
            answer: dict[str, Any] = json.loads(b"".join(iter(lambda: connection.recv(65536), b"")))
    except PermissionError as error:
        raise CommandError(Exit.NO_PERMISSION, f"{CONVERTER}: needs root or its group: use sudo") from error
    except (OSError, ValueError) as error:
        raise CommandError(Exit.UNAVAILABLE, f"no converter answers at {CONVERTER}: {error}") from error
    return answer


def links() -> list[Link]:
    """The access links of a home router, and the throttler's paths; raises CommandError, exit 69, without either."""
    return _of_any(lambda: mapping.wan_links(router()), lambda: mapping.paths(throttler()))


def sessions() -> list[Session]:
    """The throttler's sessions."""
    return mapping.sessions(throttler())


def _of_any(*questions: Callable[[], list[_T]]) -> list[_T]:
    """All answers of those that run here; raises the last CommandError if none does."""
    found: list[_T] = []
    failures = []
    for question in questions:
        try:
            found += question()
        except CommandError as failure:
            failures.append(failure)
    if len(failures) == len(questions):
        raise next((each for each in failures if each.code != Exit.UNAVAILABLE), failures[-1])
    return found


def services() -> list[Service]:
    """The programs of Tributary, whether they run here, and what they do."""
    asked: tuple[tuple[str, Callable[[], Service]], ...] = (
        ("converter", lambda: mapping.converter(converter())),
        ("throttler", lambda: mapping.throttler(throttler())),
        ("router", lambda: mapping.router(router())),
    )
    found = []
    for name, question in asked:
        try:
            found.append(question())
        except CommandError as failure:
            is_hidden = failure.code != Exit.UNAVAILABLE
            found.append(Service(name=name, running=is_hidden, uptime=None, summary=str(failure) if is_hidden else ""))
    return found


def versions() -> dict[str, str]:
    """Of the package, or of the checkout; and of a converter that runs."""
    found = {"tributary": _own_version()}
    with suppress(CommandError):
        found["converter"] = converter()["version"]
    return found


def _own_version() -> str:
    asked = (
        ["dpkg-query", "--show", "--showformat=${Version}", "tributary-common"],
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
    )
    for command in asked:
        with suppress(OSError, CommandError):
            done = process.run(command, timeout=_ANSWER_TIMEOUT)
            if done.returncode == 0 and done.stdout.strip():
                return done.stdout.strip()
    return "unknown"
