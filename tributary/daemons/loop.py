"""A daemon's loop: waits for events, serves requests, handles signals, notifies the service manager."""

import os
import selectors
import signal
import time
from collections.abc import Collection
from contextlib import ExitStack
from functools import partial
from typing import Protocol

from tributary.closing import Closing
from tributary.daemons import notify
from tributary.daemons.control import Control, Handler
from tributary.daemons.logs import Level, Log
from tributary.daemons.request_server import Respond, Server
from tributary.daemons.signals import caught
from tributary.settings.errors import CommandError

_STOP = (signal.SIGTERM, signal.SIGINT)
TRY_AGAIN = 5.0
"""Seconds to the next try, when a reload that was due has failed."""
LONGEST_WAIT = 1.0
"""Seconds between two turns at most: requests have deadlines, and the log sums up what it suppressed."""


class Descriptor(Protocol):
    """An object that a selector can watch."""

    def fileno(self) -> int:
        """Its file descriptor."""


class Daemon(Protocol):
    """A daemon that the loop runs. No method blocks; an exception ends the loop, except ``reload``'s CommandError."""

    @property
    def status(self) -> str:
        """One line for people, shown by ``systemctl status``."""

    @property
    def deadline(self) -> float:
        """When the next turn is due without a readable descriptor, by time.monotonic()."""

    def turn(self) -> None:
        """Handle what is readable or due."""

    def reload(self) -> None:
        """Read the settings again; raises CommandError, and keeps the old ones, if they are wrong."""


class Loop(Closing):
    """Runs a daemon until SIGTERM, SIGINT or a signal of ``leave``; SIGHUP means: reload, if it ``reloads``.

    A context manager, entered before the daemon touches anything: signals wait from then on until it runs.
    """

    def __init__(self, log: Log, leave: Collection[signal.Signals] = (), *, reloads: bool = False) -> None:
        self._stack = ExitStack()
        self._stop = (*_STOP, *leave)
        self._signals = self._stack.enter_context(caught(*self._stop, *([signal.SIGHUP] if reloads else [])))
        self._servers: dict[Server, Respond] = {}
        self._log = log
        self._selector = self._stack.enter_context(selectors.DefaultSelector())
        # Never closed: threads may be late.
        self._woken = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self.watch(self._signals)
        self._status: str | None = None
        self._watchdog = notify.watchdog_interval()
        self._next_watchdog = 0.0
        self._reload_due: float | None = None

    def close(self) -> None:
        self._stack.close()

    def watch(self, *descriptors: Descriptor) -> None:
        """The daemon's own, of which a readable one brings a turn."""
        for descriptor in descriptors:
            self._selector.register(descriptor, selectors.EVENT_READ)

    def wake(self, *_: object) -> None:
        """Bring a turn at once; any thread may, and any future when it is done."""
        os.eventfd_write(self._woken, 1)

    def answer(self, control: Control, handle: Handler) -> None:
        """Answer at this control socket; raises CommandError, exit 75, if another daemon does."""
        self.serve(self._stack.enter_context(control.server()), partial(control.respond, handle=handle))

    def run(self, daemon: Daemon) -> int:
        """Returns the stop signal. May be run again after ``daemon`` raised; it reports ready only once."""
        if self._status is None:
            self._status = daemon.status
            print("ready", flush=True)
            notify.send(notify.READY, notify.status(self._status))
        while (ending := self._turn(daemon)) is None:
            pass
        notify.send(notify.STOPPING)
        return ending

    def serve(self, server: Server, respond: Respond) -> None:
        """Serve this one too from now on."""
        self._servers[server] = respond
        self.watch(server)

    def leave(self, server: Server) -> None:
        """Serve it no longer; the caller closes it."""
        del self._servers[server]
        self._selector.unregister(server)

    def serve_waiting(self) -> None:
        """Serve all that is ready, also within a turn that waits for something else."""
        for server, respond in self._servers.items():
            server.serve(respond)

    def reload_in(self, seconds: float | None) -> None:
        """Reload after so many seconds, as after a signal, until it succeeds once; None: not any more."""
        self._reload_due = None if seconds is None else time.monotonic() + seconds

    def _turn(self, daemon: Daemon) -> int | None:
        ready = {key.fileobj for key, _ in self._selector.select(self._timeout(daemon))}
        if self._woken in ready:
            os.eventfd_read(self._woken)
        self.serve_waiting()
        if self._signals in ready and (ending := self._handle_signals(daemon)) is not None:
            return ending
        if self._reload_due is not None and time.monotonic() >= self._reload_due:
            self._reload(daemon)
        daemon.turn()
        self._report(daemon)
        self._log.flush()
        return None

    def _timeout(self, daemon: Daemon) -> float:
        """Seconds to wait for a descriptor."""
        now = time.monotonic()
        due = min(daemon.deadline, now + LONGEST_WAIT)
        if self._watchdog is not None:
            due = min(due, self._next_watchdog)
        if self._reload_due is not None:
            due = min(due, self._reload_due)
        return max(0.0, due - now)

    def _handle_signals(self, daemon: Daemon) -> int | None:
        """Handle the signals; returns a stop signal, if any."""
        numbers = self._signals.recv(64)
        ending = next((number for number in numbers if number in self._stop), None)
        if ending is None:
            self._reload(daemon)
        return ending

    def _reload(self, daemon: Daemon) -> None:
        if self._reload_due is not None:
            # Settings on trial must not stay because the file is wrong for now.
            self._reload_due = max(self._reload_due, time.monotonic() + TRY_AGAIN)
        notify.send(notify.reloading(time.monotonic_ns()))
        try:
            daemon.reload()
            self._reload_due = None
            self._log.event("reloaded")
        except CommandError as failure:
            self._log.event("not reloaded", Level.ERROR, reason=str(failure))
        finally:
            # After any exception: the service manager waits for the end of the reload, and else kills the daemon.
            notify.send(notify.READY)

    def _report(self, daemon: Daemon) -> None:
        """Send the service manager a new status, and the watchdog message."""
        if daemon.status != self._status:
            self._status = daemon.status
            notify.send(notify.status(self._status))
        now = time.monotonic()
        if self._watchdog is not None and now >= self._next_watchdog:
            self._next_watchdog = now + self._watchdog
            notify.send(notify.WATCHDOG)
