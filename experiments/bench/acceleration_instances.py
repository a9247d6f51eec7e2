"""What many instances have in memory, each in a network namespace of its own: one for every tenant.

None has traffic. What they share counts once (Pss, proc(5)).
"""

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from experiments.bench.converter.contenders import HAPROXY
from experiments.bench.converter.footprint import proportional
from experiments.bench.parts import NATIVE
from experiments.scenarios.cabled import Unlinked
from experiments.scenarios.sweeps import numbers
from experiments.study.metrics import Metric
from experiments.study.readings import Point, Reading, Readings
from experiments.study.scenario import Options, Repeat, Scenario
from experiments.testbed import native
from experiments.testbed.build import reserved
from experiments.testbed.node import Node
from experiments.testbed.tolerance import TOLERANCE
from experiments.testbed.topology import Topology
from tributary.settings.errors import CommandError, Exit

_LISTEN, _ORIGIN = "127.0.0.1:3128", "203.0.113.2:8080"
_SETTLE, _SETTLED = 2.0, 1.01  # seconds; growth in that time
_NATIVE = """\
[control]
socket = "{folder}/converter.sock"
[[listen]]
kind = "http"
address = "{listen}"
"""
_VCL = """\
vcl 4.1;
backend origin {{ .host = "{origin}"; }}
"""
_VARNISH = Path("/var/lib/varnish")
"""It compiles its configuration to a library in there, which /run may not allow (noexec)."""


class InstanceOptions(Options):
    """How many ``instances`` there are at once."""

    repeat: Repeat = 1
    instances: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...],
        BeforeValidator(numbers(int)),
        Field(min_length=1, description="numbers from 1 on with commas between them, such as '1,10'"),
    ] = (1, 100, 1000)


@dataclass(frozen=True)
class _Kind:
    """A program, and the file that it reads; ``{file}`` and ``{name}`` in its command are an instance's own, and
    ``{converter}`` is ours.
    """

    command: tuple[str, ...]
    settings: str
    most: int = 1000
    """Instances; Varnish compiles for about a second as each one starts."""


_VARNISHD = ("varnishd", "-F", "-f", "{file}", "-a", _LISTEN, "-n", str(_VARNISH / "{name}"), "-s", "malloc,1m")
_KINDS = {
    NATIVE: _Kind(("{converter}", "--config", "{file}"), _NATIVE),
    "haproxy": _Kind(("haproxy", "-db", "-f", "{file}"), HAPROXY),
    "varnish": _Kind(_VARNISHD, _VCL, most=100),
}


@dataclass(frozen=True)
class Tenants(Unlinked):
    """The namespaces, and the converter that runs in them."""

    nodes: Sequence[Node]
    converter: Path


@dataclass(frozen=True)
class Namespaces:
    """So many of them before they stand."""

    tenants: int

    def as_json(self) -> dict[str, object]:
        return {"namespaces": self.tenants}

    @contextmanager
    def standing(self, name: str, seed: int, tolerance: float = TOLERANCE) -> Iterator[Tenants]:  # noqa: ARG002
        """All of them for the length of the block."""
        converter = native.build().converter
        with reserved(name) as directory:
            nodes = [Node(f"trib-{name}-tenant{number}", directory) for number in range(self.tenants)]
            for node in nodes:
                node.create()
            yield Tenants(nodes, converter)


def points(options: InstanceOptions, _topology: Topology | None = None) -> list[Point]:
    """As many of each kind as it can be."""
    return [
        {"by": by, "instances": str(count)}
        for by, kind in _KINDS.items()
        for count in options.instances
        if count <= kind.most
    ]


def _measure(built: Tenants, _options: InstanceOptions, point: Point, repetition: int) -> Reading:
    """``instances_mb``; nothing of a program that is not here."""
    kind, nodes = _KINDS[point["by"]], built.nodes[: int(point["instances"])]
    command = [word.replace("{converter}", str(built.converter)) for word in kind.command]
    if shutil.which(command[0]) is None:
        return Reading(point, repetition, {}, {})
    with _running(command, kind.settings, nodes) as pids:
        return Reading(point, repetition, {"instances_mb": _settled(pids) / 1e6}, {})


def metrics(readings: Readings) -> list[Metric]:
    """``instances_mb_N``: megabytes of N converters; the same of the peers, with their names in front."""
    counts = sorted({int(reading.point["instances"]) for reading in readings})
    return [
        Metric(
            f"{'' if by == NATIVE else f'{by}_'}instances_mb_{count}",
            readings.at(by=by, instances=str(count)).values("instances_mb"),
        )
        for by in _KINDS
        for count in counts
    ]


def _settled(pids: Sequence[int]) -> int:
    """Bytes in memory once they have stopped to grow: Varnish listens before it has compiled."""
    before, now = 0, proportional(pids)
    while now > _SETTLED * before:
        time.sleep(_SETTLE)
        before, now = now, proportional(pids)
    return now


@contextmanager
def _running(command: Sequence[str], settings: str, nodes: Sequence[Node]) -> Iterator[list[int]]:
    """An instance in each of ``nodes`` for the length of the block; raises CommandError if one does not listen."""
    with ExitStack() as stack:
        pids = []
        for node in nodes:
            file = node.directory / f"{node.namespace}.conf"
            file.write_text(settings.format(folder=_folder(node), listen=_LISTEN, origin=_ORIGIN))
            own = [word.format(file=file, name=node.namespace) for word in command]
            stack.callback(shutil.rmtree, _VARNISH / node.namespace, ignore_errors=True)
            pids.append(stack.enter_context(node.start(node.namespace, own)).popen.pid)
        for node in nodes:
            _wait_until_it_listens(node)
        yield pids


def _folder(node: Node) -> Path:
    folder = node.directory / node.namespace
    folder.mkdir(exist_ok=True)
    return folder


def _wait_until_it_listens(node: Node) -> None:
    deadline = time.monotonic() + 60
    while node.run("ss", "-Hlnt", f"sport = :{_LISTEN.rpartition(':')[2]}") == "":
        if time.monotonic() > deadline:
            last = (node.directory / f"{node.namespace}.log").read_text().splitlines()[-1:]
            raise CommandError(Exit.SYSTEM, f"{node.namespace}: nobody listens: {last or 'it printed nothing'}")
        time.sleep(0.02)


SCENARIO = Scenario(
    name="bench-acceleration-instances",
    claim="What have 1 to 1,000 converters in memory, each in a namespace of its own, beside HAProxy and Varnish?",
    about=__doc__,
    options=InstanceOptions,
    quick={"instances": "1,10"},
    points=points,
    blueprint=lambda options, _profile, _point: Namespaces(max(options.instances)),
    measure=_measure,
    metrics=metrics,
    any_links=False,
)
