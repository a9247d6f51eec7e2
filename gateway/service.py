"""Enrols, lists and revokes routers for those who may ask at a socket and are not root: the console."""

import json
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from math import inf

from gateway import enrolment, report
from gateway.tunnels import Gateway
from tributary.api.places import GATEWAY
from tributary.daemons.control import Request, Response, failed, refused
from tributary.daemons.logs import Level, Log
from tributary.daemons.loop import Loop
from tributary.settings.errors import CommandError, Exit
from tributary.wireguard.enrolment import text

_PATIENCE = 5.0
"""Seconds to wait for another command that changes the routers: a browser does not wait for long."""


def serve(gateway: Callable[[], Gateway], log: Log) -> None:
    """Answer until SIGTERM or SIGINT; raises CommandError, exit 75 if another one does.

    ``gateway`` reads the settings: each request is answered by those of its moment.
    """
    with Loop(log) as loop, ThreadPoolExecutor(1, "looks") as looks, ThreadPoolExecutor(1, "changes") as changes:
        service = _Service(gateway, looks, changes, log)
        loop.answer(GATEWAY, service.answer)
        loop.run(service)


class _Service:
    """What the loop runs; threads answer, since tools are run, and who changes something waits for a lock."""

    deadline = inf
    status = "answers at its socket"

    def __init__(
        self, gateway: Callable[[], Gateway], looks: ThreadPoolExecutor, changes: ThreadPoolExecutor, log: Log
    ) -> None:
        self._gateway, self._looks, self._changes, self._log = gateway, looks, changes, log
        self._started = time.monotonic()

    def turn(self) -> None:
        """Nothing is due."""

    def reload(self) -> None:
        """The settings are read for each request."""

    def answer(self, asked: Request) -> "Future[bytes]":
        known: dict[str, Callable[[Request], Response]] = {
            "status": self._status,
            "routers": self._routers,
            "enrol": self._enrol,
            "revoke": self._revoke,
        }
        thread = self._changes if asked["command"] in GATEWAY.steering else self._looks
        return thread.submit(self._answered, known[asked["command"]], asked)

    def _status(self, _asked: Request) -> Response:
        files = list(self._gateway().state.routers.glob("*.toml"))
        return {"routers": len(files), "uptime_s": round(time.monotonic() - self._started, 3)}

    def _routers(self, _asked: Request) -> Response:
        gateway = self._gateway()
        contents = gateway.registry.look()
        notes = list(contents.notes)
        listed = report.listed(gateway, contents.routers, time.time(), notes.append)
        return {"routers": [each.model_dump(mode="json") for each in listed], "notes": notes}

    def _enrol(self, asked: Request) -> Response:
        gateway, name = self._gateway(), str(asked["name"])
        with gateway.state.locked(_PATIENCE):
            made = enrolment.enrol(gateway, [name], datetime.now(UTC))
        self._log.event("enrolled", router=name)
        return {"settings": text(made.enrolment), "notes": list(made.notes)}

    def _revoke(self, asked: Request) -> Response:
        gateway, name = self._gateway(), str(asked["name"])
        with gateway.state.locked(_PATIENCE):
            notes = enrolment.revoke(gateway, [name])
        self._log.event("revoked", router=name)
        return {"notes": list(notes)}

    def _answered(self, act: Callable[[Request], Response], asked: Request) -> bytes:
        try:
            return json.dumps(act(asked)).encode()
        except (CommandError, KeyError) as error:
            return refused(error)
        except Exception as error:
            self._log.event("fault", Level.ERROR, command=asked["command"], error=repr(error))
            return failed(Exit.SYSTEM, f"a fault of the gateway's service, which its log names: {error!r}")
