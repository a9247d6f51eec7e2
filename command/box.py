"""What runs on this box, and what it answers."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from command import mapping, parts
from command.show import Listed
from throttler.service.status import FoundSessions, Status
from tributary.api.answers import decoded
from tributary.api.documents import Bypass, Device, HomeGateway, Link, Rule, Service, Session
from tributary.api.parts import Fleet, HandOff, Overlay
from tributary.api.places import CONSOLE, GATEWAY, ROUTER, THROTTLER
from tributary.daemons.control import Silent, exchanged, place
from tributary.kernel import interfaces, process
from tributary.paths import ROOT
from tributary.settings.errors import CommandError, Exit

CONVERTER = Path("/run/tributary-converter/control.sock")
"""That of this machine; one of a network namespace's own, as in a testbed, has its socket beside the daemons'."""
_ANSWER_TIMEOUT = 5.0

_T = TypeVar("_T")


def throttler(timeout: float = THROTTLER.timeout) -> Status:
    """The throttler's status, in so many seconds; raises CommandError, exit 69, where none runs."""
    return decoded(Status, replace(THROTTLER, timeout=timeout).ask("status"), THROTTLER)


def router(timeout: float = ROUTER.timeout) -> dict[str, Any]:
    """The router daemon's status, in so many seconds; raises CommandError, exit 69, where none runs."""
    return replace(ROUTER, timeout=timeout).ask("status")


def lan(timeout: float) -> dict[str, Any]:
    """What the router daemon says of its LAN, in so many seconds; raises CommandError, exit 69, where none runs."""
    return replace(ROUTER, timeout=timeout).ask("lan")


def gateway() -> dict[str, Any]:
    """The status of the gateway of home routers; raises CommandError, exit 69, where none runs."""
    return replace(GATEWAY, timeout=_ANSWER_TIMEOUT).ask("status")


def home_routers() -> list[dict[str, Any]]:
    """Those of the gateway of home routers, as ``tributary routers --json`` has them; raises as ``gateway`` does."""
    answer: list[dict[str, Any]] = replace(GATEWAY, timeout=_ANSWER_TIMEOUT).ask("routers")["routers"]
    return answer


def converter() -> dict[str, Any]:
    """The native converter's status; raises CommandError, exit 69, where none runs."""
    # One that was killed has left the file of its own socket.
    for socket in (place("converter"), CONVERTER):
        with suppress(FileNotFoundError, ConnectionRefusedError):
            return _asked_at(socket)
    raise CommandError(Exit.UNAVAILABLE, f"no converter answers at {CONVERTER}")


def _asked_at(socket: Path) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = exchanged(socket, b"", _ANSWER_TIMEOUT)
    except PermissionError as error:
        raise CommandError(Exit.NO_PERMISSION, f"{socket}: needs root or its group: use sudo") from error
    except (FileNotFoundError, ConnectionRefusedError):
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise Silent(f"the converter does not answer at {socket}: {error}") from error
    return answer


def console() -> dict[str, Any]:
    """The console's status; raises CommandError, exit 69, where none runs."""
    return replace(CONSOLE, timeout=_ANSWER_TIMEOUT).ask("status")


PROGRAMS: Mapping[str, Callable[[], Mapping[str, Any]]] = {
    "converter": converter,
    "throttler": lambda: THROTTLER.ask("status"),
    "router": router,
    "gateway": gateway,
    "console": console,
    "overlay": lambda: parts.overlay().model_dump(mode="json"),
    "handoff": lambda: parts.handoff().model_dump(mode="json"),
    "fleet": lambda: parts.fleet().model_dump(mode="json"),
}
"""What asks each for all that it says of itself; raises CommandError, exit 69, where none runs."""


def _or_failure(ask: Callable[[], _T]) -> _T | CommandError:
    try:
        return ask()
    except CommandError as failure:
        return failure


def _or_raise(answer: _T | CommandError) -> _T:
    if isinstance(answer, CommandError):
        raise answer
    return answer


class Answers:
    """What the programs say; each is asked once, when its answer is needed first, and has so many seconds."""

    def __init__(self, throttlers: float = THROTTLER.timeout, routers: float = ROUTER.timeout) -> None:
        self._throttlers, self._routers = throttlers, routers

    @cached_property
    def _throttler(self) -> Status | CommandError:
        return _or_failure(partial(throttler, self._throttlers))

    @cached_property
    def _router(self) -> dict[str, Any] | CommandError:
        return _or_failure(partial(router, self._routers))

    def links(self) -> Listed[Link]:
        """A home router's access links, and the throttler's paths; raises CommandError, exit 69, without either."""
        moment = time.monotonic()
        wan, paths = self._router, self._throttler
        if isinstance(wan, CommandError) and isinstance(paths, CommandError):
            if wan.code != Exit.UNAVAILABLE or isinstance(wan, Silent):
                raise wan
            if paths.code != Exit.UNAVAILABLE or isinstance(paths, Silent):
                raise paths
            raise CommandError(Exit.UNAVAILABLE, f"{paths}, nor does a router")
        found = [
            *([] if isinstance(wan, CommandError) else map(mapping.wan_link, wan["wan"])),
            *([] if isinstance(paths, CommandError) else mapping.paths(paths)),
        ]
        return Listed(list(map(_counted, found)), moment)

    def notes(self) -> list[str]:
        """Which of those with links does not answer; whether a home router's gateway does, and what would help."""
        silent = [str(each) for each in (self._router, self._throttler) if isinstance(each, Silent)]
        gateway = None if isinstance(self._router, CommandError) else self._router["gateway"]
        return silent + ([] if gateway is None else [finding["text"] for finding in gateway["diagnosis"]])

    def gateway(self) -> HomeGateway | None:
        """The gateway of this home router; None if it has no tunnels. Raises as ``devices`` does."""
        return mapping.home_gateway(_or_raise(self._router))

    def devices(self) -> Listed[Device]:
        """The devices of a home router's LAN; raises CommandError, exit 69, without a router."""
        return Listed([decoded(Device, each, ROUTER) for each in self._lan["devices"]], self._lan["moment"])

    def bypasses(self) -> list[Bypass]:
        """What leaves a home router's LAN past the tunnels; raises CommandError, exit 69, without a router."""
        return [decoded(Bypass, each, ROUTER) for each in self._lan["bypass"]]

    @cached_property
    def _lan(self) -> dict[str, Any]:
        _or_raise(self._router)
        return lan(self._routers)

    def throttler(self) -> Status:
        """All that the throttler says; raises CommandError, exit 69, where none runs."""
        return _or_raise(self._throttler)

    def sessions(self, **query: object) -> Listed[Session]:
        """The throttler's first sessions, or the page that a ``query`` asks for (throttler/service/query.py); raises
        CommandError, exit 69, where none runs.
        """
        if query:
            asked = replace(THROTTLER, timeout=self._throttlers).ask("sessions", query=query)
            found = decoded(FoundSessions, asked, THROTTLER)
            return Listed(found.sessions, found.uptime_s, found.total)
        seen = self.throttler()
        # The daemon's own clock: the time that an answer takes on its way does not matter.
        return Listed(seen.sessions, seen.uptime_s, seen.sessions_total)

    def rules(self) -> Listed[Rule]:
        """The throttler's rules; raises CommandError, exit 69, where none runs."""
        status = self.throttler()
        return Listed(list(map(mapping.rule, status.rules)), status.uptime_s)

    def explain(self, *ends: str) -> Mapping[str, Any]:
        """Why a session's subflows, or the one with these ends, are throttled, or why not; raises CommandError."""
        return THROTTLER.ask("explain", ends=ends)

    @cached_property
    def overlay(self) -> Overlay | CommandError:
        return _or_failure(parts.overlay)

    @cached_property
    def handoff(self) -> HandOff | CommandError:
        return _or_failure(parts.handoff)

    @cached_property
    def fleet(self) -> Fleet | CommandError:
        return _or_failure(parts.fleet)

    def services(self) -> list[Service]:
        """The programs of Tributary, whether they run here, and what they do; of a few only those that run."""
        return [*self.daemons(), _service("console", _or_failure(console), mapping.console)]

    def daemons(self) -> list[Service]:
        """Those but the console, which asks by this itself."""
        few = (
            _service("overlay", self.overlay, parts.overlay_summary),
            _service("handoff", self.handoff, parts.handoff_summary),
            _service("fleet", self.fleet, parts.fleet_summary),
        )
        return [
            _service("converter", _or_failure(converter), mapping.converter),
            _service("throttler", self._throttler, mapping.throttler),
            _service("router", self._router, mapping.router),
            _service("gateway", _or_failure(gateway), mapping.gateway),
            *(each for each in few if each.running or each.is_silent),
        ]


def _counted(link: Link) -> Link:
    octets = interfaces.octets(link.interface) if link.interface else None
    return link.model_copy(update={"sent": octets.sent, "received": octets.received}) if octets else link


def _service(name: str, answer: _T | CommandError, of: Callable[[_T], tuple[float | None, str]]) -> Service:
    if not isinstance(answer, CommandError):
        uptime, summary = of(answer)
        return Service(name=name, running=True, uptime=uptime, summary=summary)
    is_hidden = answer.code != Exit.UNAVAILABLE
    is_there = is_hidden or isinstance(answer, Silent)
    return Service(name=name, running=is_hidden, uptime=None, summary=str(answer) if is_there else "")


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
