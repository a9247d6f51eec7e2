"""Answers requests of the control socket: the status at once, also while a program runs; all else in the next turn."""

import json
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from router.api import Status
from router.lan.tables import LanTables
from router.links.usage import Usage
from router.live_settings import LiveSettings
from router.settings import RouterSettings, parse
from tributary.daemons.control import REFUSED, Request, Response, refused, trial_seconds
from tributary.daemons.logs import Log
from tributary.settings import bypass
from tributary.settings.errors import CommandError, Exit
from tributary.settings.values import as_text


class Router(Protocol):
    """What the daemon does for requests; ``take_...``: with what was set at run time."""

    def reload(self) -> None: ...
    def change_settings(self, settings: RouterSettings) -> None: ...
    def take_settings(self) -> None: ...
    def take_usage(self) -> None: ...


class Commands:
    """Requests that wait, and what they do."""

    def __init__(
        self,
        router: Router,
        settings: LiveSettings,
        lan: LanTables,
        status: Status,
        usage: Usage,
        reload_in: Callable[[float | None], None],
        log: Log,
    ) -> None:
        self._router, self._settings, self._lan, self._status = router, settings, lan, status
        self._usage, self._reload_in, self._log = usage, reload_in, log
        self._waiting: list[tuple[Request, Future[bytes]]] = []
        self._is_ending = False

    @property
    def are_waiting(self) -> bool:
        return bool(self._waiting)

    def turn(self) -> None:
        waiting, self._waiting = self._waiting, []
        for asked, later in waiting:
            try:
                later.set_result(json.dumps(self._change(asked)).encode())
            except REFUSED as error:
                later.set_result(refused(error))

    def end(self) -> None:
        """Answers the requests that wait, and refuses later ones."""
        self.turn()
        self._is_ending = True

    def answer(self, asked: Request) -> Response | Future[bytes]:
        if asked["command"] == "status":
            return self._status.document(time.monotonic())
        if self._is_ending:
            raise CommandError(Exit.UNAVAILABLE, "the router daemon ends")
        later = Future[bytes]()
        self._waiting.append((asked, later))
        return later

    def _change(self, asked: Request) -> Response:
        match asked["command"]:
            case "lan":
                return self._lan.shown(time.monotonic())
            case "set-bypass":
                self._set_bypass(bypass.parsed(str(asked["match"])), asked["to"])
            case "set-usage":
                self._set_usage(str(asked["link"]), int(asked["used"]))
            case "set-link":
                self._set_link(str(asked["link"]), str(asked["key"]), asked["value"])
            case "try":
                seconds = trial_seconds(asked)
                settings = parse(as_text(asked["settings"]), asked["name"], self._settings.file)
                # First: nothing that fails afterwards may leave them for good.
                self._reload_in(seconds)
                self._router.change_settings(settings)
            case "reload":
                self._router.reload()
                self._reload_in(None)
        return {}

    def _set_link(self, link: str, key: str, value: str | None) -> None:
        """Until a reload."""
        self._settings.set(link, key, value)
        self._log.event("link set", link=link, key=key, value=value or "as the settings say")
        self._router.take_settings()

    def _set_bypass(self, what: str, to: str | None) -> None:
        self._lan.bypasses.set(what, to)
        self._log.event("by-pass set", what=what, to=to or "as the settings say")

    def _set_usage(self, link: str, used: int) -> None:
        if not self._usage.set(link, used):
            capped = ", ".join(sorted(self._usage.capped)) or "none"
            raise CommandError(Exit.USAGE, f"{link}: no link with a monthly_cap; these are: {capped}")
        self._log.event("usage set", link=link, bytes=used)
        self._router.take_usage()
