"""One run of an experiment: what is missing is measured, then judged and drawn from the readings alone."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from experiments.results import finish, manifest, write_json
from experiments.study.command import Allowed
from experiments.study.experiment import Experiment
from experiments.study.folder import Folder
from experiments.study.order import Order
from experiments.study.plot import plot
from experiments.study.readings import STOLEN, Point, Reading, Readings, Verdict, file_name, name_of
from experiments.testbed import native
from experiments.testbed.build import Testbed
from experiments.testbed.selfcheck import as_json
from tributary.settings.errors import CommandError

_ATTEMPTS = 3
_CALM_WITHIN = 120.0  # seconds
_STEAL = 7  # proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user time already
_CAPTURED = "128"
"""Of each packet: all headers with every option of TCP, and hardly any payload."""


@dataclass(frozen=True)
class Outcome:
    """What a whole run gave."""

    readings: Readings
    verdicts: Sequence[Verdict]


@dataclass(frozen=True)
class Measuring:
    """How scripts/``script`` measures: on testbeds called ``name``, with all that comes of it in ``results``, and with
    captures of each reading if ``pcap``. A reading is taken again if the hypervisor took more meanwhile than is
    ``allowed``.
    """

    script: str
    name: str
    results: Path
    console: Console
    allowed: Allowed
    pcap: bool = False

    def perform_all(self, orders: Sequence[Order]) -> Iterator[tuple[Order, Outcome]]:
        """Those of ``orders`` that can be performed, and what each gave.

        Of several, one that cannot is told, and the others go on; then raises CommandError, with the first one's exit
        code.
        """
        failures: dict[str, CommandError] = {}
        for order in orders:
            try:
                outcome = self.perform(order)
            except CommandError as failure:
                if len(orders) == 1:
                    raise
                told = f"{order.experiment.name}: {failure}"
                self.console.print(told, markup=False, highlight=False, soft_wrap=True)
                failures[order.experiment.name] = failure
            else:
                yield order, outcome
        if failures:
            raise CommandError(next(iter(failures.values())).code, f"not measured to the end: {', '.join(failures)}")

    def perform(self, order: Order) -> Outcome:
        """Measure what is missing of ``order``, and conclude."""
        # Captures take processor time from what is measured.
        plan = order.plan() | self.allowed.as_json() | ({"pcap": True} if self.pcap else {})
        with Folder.resumed_or_begun(self.results / order.experiment.name, plan) as folder:
            wanted = [(repetition, point) for repetition, point in order.readings if not folder.has(point, repetition)]
            if wanted:
                about = manifest(self.script, plan=plan, paper=order.experiment.paper)
                write_json(folder.path / "manifest.json", about)
                self._measure(order, folder, wanted)
            return _conclude(order, folder)

    def _measure(self, order: Order, folder: Folder, wanted: Sequence[tuple[int, Point]]) -> None:
        """A testbed for as many readings in a row as it serves."""
        name, total = order.experiment.name, len(order.points) * order.experiment.repeat
        columns = (TextColumn("{task.description:60}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self.console) as progress:
            task = progress.add_task(name, total=total, completed=total - len(wanted))
            for (seed, blueprint), group in groupby(wanted, order.stands_on):
                progress.update(task, description=f"{name}: checking the links")
                with blueprint.standing(self.name, seed, self.allowed.tolerance.fraction) as standing:
                    about = {"seed": seed, "emulated_by": standing.emulation, "measured": as_json(standing.links)}
                    obeyed = {"low_mark_obeyed": standing.low_mark_obeyed}
                    folder.note_testbed(blueprint.as_json() | about | obeyed | {"programs": native.description()})
                    for repetition, point in group:
                        progress.update(task, description=f"{name}: {name_of(point)}")
                        folder.add(self._undisturbed(order.experiment, folder, standing.built, point, repetition))
                        progress.advance(task)

    def _undisturbed(
        self, experiment: Experiment, folder: Folder, built: object, point: Point, repetition: int
    ) -> Reading:
        """A reading, taken again if the hypervisor took too much time meanwhile; its value STOLEN tells."""
        file = file_name(point, repetition)
        for attempt in range(1, _ATTEMPTS + 1):
            capture = captured(built, folder.path / "pcap", file) if self.pcap else nullcontext()
            with capture, stolen() as share:
                reading = experiment.measure(built, point, repetition)
                lost = share()
            if lost <= self.allowed.most_stolen.fraction or attempt == _ATTEMPTS:
                break
            self.console.print(f"{name_of(point)}: again, the hypervisor took {lost:.1%} of the processors' time")
            wait_for_calm(self.allowed.most_stolen.fraction)
        return replace(reading, values={**reading.values, STOLEN: 100 * lost})


def _conclude(order: Order, folder: Folder) -> Outcome:
    readings = folder.readings()
    verdicts = order.judged(readings)
    write_json(folder.path / "verdicts.json", [verdict.as_json() for verdict in verdicts])
    folder.write_tables(order.experiment.name, readings)
    (folder.path / "plot.svg").write_text(plot(order.experiment.name, lambda figure: order.drawn(figure, readings)))
    finish(folder.path)
    return Outcome(readings, verdicts)


def share(before: str, after: str) -> float:
    """The part of the time, from 0 to 1, that was stolen between two readings of /proc/stat."""
    passed = [now - then for then, now in zip(_ticks(before), _ticks(after), strict=True)]
    return passed[_STEAL] / sum(passed) if sum(passed) else 0.0


def _ticks(stat: str) -> list[int]:
    return [int(field) for field in stat.splitlines()[0].split()[1 : _STEAL + 2]]


@contextmanager
def stolen() -> Iterator[Callable[[], float]]:
    """The function given says what part of the time was stolen since the block began."""
    stat = Path("/proc/stat")
    before = stat.read_text()
    yield lambda: share(before, stat.read_text())


def wait_for_calm(most: float) -> None:
    """Return once no more than ``most`` was stolen for a second, or after two minutes."""
    deadline = time.monotonic() + _CALM_WITHIN
    while time.monotonic() < deadline:
        with stolen() as now:
            # Nothing is stolen from who wants nothing: wake up often.
            for _ in range(200):
                time.sleep(0.005)
            if now() <= most:
                return


@contextmanager
def captured(built: object, folder: Path, name: str) -> Iterator[None]:
    """What passes the ends of a testbed and its gateway for the length of the block, in ``folder``/NAME-NODE.pcap;
    raises CommandError.
    """
    assert isinstance(built, Testbed), "need_captures() refuses all else"
    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        for node in (built.client, built.gateway, built.server):
            file = folder / f"{name}-{node.namespace.rpartition('-')[2]}.pcap"
            command = ["tcpdump", "-Z", "root", "-n", "-s", _CAPTURED, "-i", "any", "-w", str(file)]
            stack.enter_context(node.start("capture", command)).wait_for_output()
        yield
