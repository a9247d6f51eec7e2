"""Runs one Squid: checks everything first, and removes everything that it created."""

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from squid import host, render
from squid.settings import SquidSettings
from tributary.daemons import directories
from tributary.kernel import nft, nft_tables
from tributary.kernel.mptcp_switch import require_mptcp
from tributary.kernel.process import ended, require, run
from tributary.settings.cli import need_root, postponed_signals
from tributary.settings.errors import CommandError, Exit, refused

_START_SECONDS = 30.0
_POLL_SECONDS = 0.05
_CACHE_SECONDS = 600.0
"""For thousands of directories on an SD card."""
_GUARD_SECONDS = 2.0
"""For how long a guard that another program has flushed may be missing."""
_TABLE = "inet squid"


@dataclass(frozen=True)
class _Log:
    """Squid's own log from an offset in bytes, without the lines of earlier runs."""

    path: Path
    start: int

    @classmethod
    def end_of(cls, path: Path) -> Self:
        return cls(path, path.stat().st_size if path.exists() else 0)

    def since(self) -> str:
        content = self.path.read_bytes() if self.path.exists() else b""
        # logrotate(8) has emptied it since if it is shorter.
        return content[self.start if self.start <= len(content) else 0 :].decode(errors="replace")


def check_host(settings: SquidSettings) -> None:
    """Raise CommandError (77, 69, 75) if Squid could not run here; nothing is changed."""
    need_root("running Squid, which loads nft rules and becomes another user,")
    require(*host.TOOLS)
    host.require_user()
    require_mptcp()
    host.require_state(settings)
    host.require_free(settings)


def check_config(text: str) -> None:
    """Raise CommandError (1) with Squid's own words unless Squid takes ``text`` as its squid.conf."""
    require("squid")
    with tempfile.TemporaryDirectory(prefix="squid-check-") as directory:
        path = Path(directory) / "squid.conf"
        path.write_text(text)
        parsed = run(["squid", "-k", "parse", "-f", str(path)])
    if parsed.returncode != 0:
        raise CommandError(Exit.WRONG_RESULT, f"squid refuses the configuration: {_reason(parsed.stderr)}")


def serve(settings: SquidSettings) -> None:
    """Run Squid in the foreground of this network namespace; print ``ready`` once it listens with MPTCP.

    Returns only by an exception: CommandError when Squid could not start or ended by itself, SystemExit on a signal.
    """
    check_host(settings)
    config = render.squid_conf(settings, host.own_addresses())
    check_config(config)
    with ExitStack() as made:
        here = made.enter_context(_only_one_here())
        _prepare_state(settings)
        state = made.enter_context(host.locked_state(settings))
        made.enter_context(_written(settings.paths.config, config))
        rules = render.guard(settings)
        made.enter_context(_guard(rules))
        log = _Log.end_of(settings.paths.logs / "cache.log")
        squid = made.enter_context(_squid(settings, (here, state)))
        _await_listeners(squid, settings, log)
        print("ready", flush=True)
        _keep_guarded(squid, rules)
        raise _ended(squid, log)


def _keep_guarded(squid: subprocess.Popen[bytes], rules: str) -> None:
    """Until Squid ends. Another program's ``flush ruleset``, as of nftables.service, takes the guard as well."""
    end = os.pidfd_open(squid.pid)
    try:
        while not select.select([end], [], [], _GUARD_SECONDS)[0]:
            if nft_tables.handle(_TABLE) is None:
                nft.execute(rules)
                print("the guard was flushed by another program, and is loaded again", file=sys.stderr, flush=True)
    finally:
        os.close(end)
    squid.wait()


def _only_one_here() -> AbstractContextManager[int]:
    """Exclude a second Squid from this network namespace, where it would replace the first one's guard.

    Squid inherits the lock's descriptor, so that the lock remains if this process is killed and Squid runs on.
    """
    directories.make_run()
    path = directories.RUN / f"squid.{directories.namespace()}.lock"
    return directories.lock_file(path, taken="another `squid run` serves this network namespace")


def _prepare_state(settings: SquidSettings) -> None:
    """Create the state directory. It remains root's, since root writes there; Squid's user owns what is below."""
    if settings.state_directory is None:
        return
    with refused(Exit.SYSTEM, settings.state_directory, "cannot be made"):
        for directory in (settings.paths.logs, settings.paths.cache):
            directory.mkdir(parents=True, exist_ok=True)
            shutil.chown(directory, host.USER)


@contextmanager
def _written(path: Path, text: str) -> Iterator[None]:
    try:
        with refused(Exit.SYSTEM, path, "cannot be written"):
            path.write_text(text)
        yield
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def _guard(rules: str) -> Iterator[None]:
    try:
        nft.execute(rules)
        yield
    finally:
        nft.execute(nft.delete(_TABLE))


@contextmanager
def _squid(settings: SquidSettings, locks: Sequence[int]) -> Iterator[subprocess.Popen[bytes]]:
    # The service name (-n) names Squid's shared memory: one per network namespace, or several Squids would share it.
    name = f"tributary{Path('/proc/self/ns/net').stat().st_ino}"
    command = ["squid", "-N", "-n", name, "-f", str(settings.paths.config)]
    # No Squid has that number any more, but perhaps another process: Squid would refuse to start.
    settings.paths.pid.unlink(missing_ok=True)
    if settings.cache is not None:
        _make_cache(command)
    with ExitStack() as ending:
        ending.callback(_remove_shared_memory, name)
        # A signal before its end is provided for would leave it running, without its guard.
        with postponed_signals(signal.SIGINT):
            # In its own session: a Ctrl-C in the terminal reaches only this process, which then stops Squid in order.
            squid = subprocess.Popen(
                ["mptcpize", "run", *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=locks,
                start_new_session=True,
            )
            # It lets transfers end first; a second signal to this process ends it at once.
            ending.enter_context(ended(squid, settings.drain.seconds + 10))
        yield squid


def _remove_shared_memory(name: str) -> None:
    for segment in Path("/dev/shm").glob(f"{name}-*.shm"):
        segment.unlink(missing_ok=True)


def _make_cache(command: list[str]) -> None:
    """Create the cache's directories; Squid keeps existing ones."""
    made = run([*command, "-z"], timeout=_CACHE_SECONDS)
    if made.returncode != 0:
        raise CommandError(Exit.SYSTEM, f"squid cannot make its cache: {_reason(made.stderr)}")


def _await_listeners(squid: subprocess.Popen[bytes], settings: SquidSettings, log: _Log) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while _mptcp_listeners(settings.port) < len(settings.listeners):
        if squid.poll() is not None:
            raise _ended(squid, log)
        if time.monotonic() > deadline:
            why = _reason(log.since())
            raise CommandError(Exit.SYSTEM, f"squid does not listen everywhere with MPTCP: {why} (see {log.path})")
        time.sleep(_POLL_SECONDS)


def _mptcp_listeners(port: int) -> int:
    # Not ss -M: it lists nothing where the kernel's module mptcp_diag is missing. The TCP socket below says it as well.
    return run(["ss", "-Hltni", f"sport = :{port}"]).stdout.count("tcp-ulp-mptcp")


def _ended(squid: subprocess.Popen[bytes], log: _Log) -> CommandError:
    return CommandError(
        Exit.SYSTEM, f"squid ended by itself, status {squid.returncode}: {_reason(log.since())} (see {log.path})"
    )


def _reason(log: str) -> str:
    """The last line of Squid's that names a fatal error, without its time stamp."""
    lines = [line for line in log.splitlines() if "FATAL" in line or "ERROR" in line or "assertion failed" in line]
    return (lines[-1].partition("| ")[2] or lines[-1]) if lines else "no reason given"
