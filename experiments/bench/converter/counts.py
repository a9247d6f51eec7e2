"""Instructions and system calls of a contender for a new connection and for a request: figures without noise.

Instructions are those of its own processes, by callgrind(1), without the kernel's; system calls are by strace(1). Both
slow it down, and change neither what it does for each, nor, with one client, in which order.
"""

import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from experiments.bench.converter.contenders import Contender
from experiments.testbed import cables
from experiments.testbed.build import Testbed
from experiments.testbed.usage import family
from tributary.kernel import process
from tributary.settings.errors import CommandError, Exit

TOOLS = ("callgrind_control", "strace", "valgrind")
UNITS = {"connection": "connect", "request": "requests"}
"""What is counted for, by the command of tributary-load that asks for many of it."""
KINDS = tuple(f"{what}_per_{unit}" for what in ("instructions", "syscalls") for unit in UNITS)

_TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)
_CALLS = re.compile(r"^\s*100\.00\s+[\d.]+\s+\d+\s+(\d+)(?:\s+\d+)?\s+total$", re.MULTILINE)
_ALONE = ("--clients", "1")


Beside = Callable[[], AbstractContextManager[object]]


def counts(testbed: Testbed, contender: Contender, seconds: float, beside: Beside = nullcontext) -> dict[str, float]:
    """``KINDS``, each of a load of so many seconds, within a block of ``beside``."""
    found = {}
    for unit, command in UNITS.items():
        load = (command, *_ALONE, "--seconds", str(seconds), *contender.route)
        found[f"instructions_per_{unit}"] = _instructions(testbed, contender, load, beside)
        found[f"syscalls_per_{unit}"] = _syscalls(testbed, contender, load, beside)
    return found


def _instructions(testbed: Testbed, contender: Contender, load: Sequence[str], beside: Beside) -> float:
    with TemporaryDirectory(dir=testbed.directory) as folder:
        files = f"--callgrind-out-file={folder}/%p"
        watched = ("--tool=callgrind", "--instr-atstart=no", "--trace-children=yes", files)
        with contender.running(testbed, "valgrind", "--quiet", *watched, mptcp=False) as running, beside():
            pids = family(running.popen.pid)
            _instrument("on", pids)
            units = float(cables.load(testbed, *load)["requests"])
            _instrument("off", pids)
        told = (_TOTAL.findall(file.read_text()) for file in Path(folder).iterdir())
        return sum(int(total) for totals in told for total in totals[-1:]) / units


def _instrument(whether: str, pids: Sequence[int]) -> None:
    done = process.run(["callgrind_control", "-i", whether, *map(str, pids)])
    if done.returncode != 0:
        raise CommandError(Exit.SYSTEM, f"callgrind_control -i {whether}: {done.stderr.strip()}")


def _syscalls(testbed: Testbed, contender: Contender, load: Sequence[str], beside: Beside) -> float:
    told = testbed.directory / "strace"
    with (
        contender.running(testbed, mptcp=False) as running,
        beside(),
        _traced(testbed, family(running.popen.pid), told),
    ):
        units = float(cables.load(testbed, *load)["requests"])
    calls = counted(told.read_text())
    if calls is None:
        raise CommandError(Exit.SYSTEM, f"{contender.name}: strace counted nothing")
    return calls / units


def counted(table: str) -> int | None:
    """All calls of the ``table`` of strace -c, whose column of errors is empty where there were none."""
    total = _CALLS.search(table)
    return int(total[1]) if total else None


@contextmanager
def _traced(testbed: Testbed, pids: Sequence[int], told: Path) -> Iterator[None]:
    attached = [word for pid in pids for word in ("-p", str(pid))]
    command = ["strace", "-f", "-c", "-o", str(told), *attached]
    with testbed.gateway.start("strace", command).wait_for_output() as tracer:
        yield
        tracer.popen.send_signal(signal.SIGINT)
        tracer.popen.wait(20)
