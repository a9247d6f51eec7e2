"""Limits for a process and its children: memory and processor time, by a control group (cgroups(7))."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tributary.settings.errors import CommandError, Exit

_PERIOD = 10_000  # microseconds: a share of a processor is given out every hundredth of a second,
_LEAST = 1000  # or more seldom: the kernel takes no smaller one (sched/sched-bwc.rst)
_GONE_WITHIN = 5.0  # seconds
# A share of a processor is for ordinary processes: where real-time ones have shares of their own, none may enter.
_ENTER = """chrt --other --pid 0 $$ &&
for group in $TRIBUTARY_GROUPS; do echo $$ >"$group/cgroup.procs" || exit; done; exec "$@"
"""


@contextmanager
def limited(name: str, memory: int | None = None, processor: float | None = None) -> Iterator[list[str]]:
    """What to put before a command so that it runs with at most ``memory`` bytes and ``processor`` of one processor.

    What still runs of it when the block ends is killed. Raises CommandError (71) if the system does not let its groups
    be limited.
    """
    limits = {}
    if memory is not None:
        limits["memory"] = {"memory.limit_in_bytes": str(memory)}, {"memory.max": str(memory)}
    if processor is not None:
        period = max(_PERIOD, round(_LEAST / processor))
        share = round(processor * period)
        first = {"cpu.cfs_period_us": str(period), "cpu.cfs_quota_us": str(share)}
        limits["cpu"] = first, {"cpu.max": f"{share} {period}"}
    groups: dict[str, Path] = {}
    with ExitStack() as stack:
        for controller, (first, second) in limits.items():
            parent, unified = _hierarchy(controller)
            group = parent / name
            if group not in groups.values():
                _make(group)
                stack.callback(_remove, group)
            groups[controller] = group
            for file, value in (second if unified else first).items():
                _write(group / file, value)
        # As this process sees them: ip-netns(8) has its commands see another /sys.
        entered = " ".join(sorted({f"/proc/{os.getpid()}/root{group}" for group in groups.values()}))
        yield ["env", f"TRIBUTARY_GROUPS={entered}", "sh", "-c", _ENTER, "limited"] if groups else []


def _hierarchy(controller: str) -> tuple[Path, bool]:
    """Where groups of ``controller`` can be made, and whether it is the one hierarchy for all (version 2)."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    for _, where, kind, options, *_ in mounts:
        if kind == "cgroup" and controller in options.split(","):
            return Path(where), False
    for _, where, kind, *_ in mounts:
        if kind == "cgroup2" and controller in (Path(where) / "cgroup.controllers").read_text().split():
            _write(Path(where) / "cgroup.subtree_control", f"+{controller}")
            return Path(where), True
    raise CommandError(Exit.SYSTEM, f"this kernel has no control groups for {controller} (cgroups(7))")


def _make(group: Path) -> None:
    try:
        group.mkdir(exist_ok=True)
    except OSError as error:
        raise CommandError(
            Exit.SYSTEM, f"{group}: {os.strerror(error.errno or 0)}: no control group can be made"
        ) from error


def _remove(group: Path) -> None:
    deadline = time.monotonic() + _GONE_WITHIN
    while True:
        # A 0 stands for who belongs to another PID namespace.
        for pid in filter(None, map(int, (group / "cgroup.procs").read_text().split())):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            return group.rmdir()
        except OSError as error:
            if time.monotonic() > deadline:
                raise CommandError(Exit.SYSTEM, f"{group}: {os.strerror(error.errno or 0)}: not removed") from error
        time.sleep(0.01)


def _write(file: Path, value: str) -> None:
    try:
        file.write_text(value)
    except OSError as error:
        raise CommandError(Exit.SYSTEM, f"{file}: {os.strerror(error.errno or 0)}: {value} was not taken") from error
