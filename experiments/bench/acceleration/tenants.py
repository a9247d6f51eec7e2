"""What many instances have in memory, each in a network namespace of its own: one for every tenant."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.bench.converter.contenders import HAPROXY
from experiments.bench.converter.footprint import proportional
from experiments.bench.pair import NAME
from experiments.study.figures import Series
from experiments.testbed.build import reserved, take_down
from experiments.testbed.native import Programs
from experiments.testbed.node import Node
from tributary.settings.failure import Exit, Failure

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


@dataclass(frozen=True)
class _Kind:
    """A program, and the file that it reads; ``{file}`` and ``{name}`` in its command are an instance's own."""

    name: str
    command: tuple[str, ...]
    settings: str
    most: int = 1000
    """Instances; Varnish compiles for about a second as each one starts."""


def _kinds(programs: Programs) -> Iterator[_Kind]:
    yield _Kind("", (str(programs.converter), "--config", "{file}"), _NATIVE)
    yield _Kind("haproxy_", ("haproxy", "-db", "-f", "{file}"), HAPROXY)
    varnish = ("varnishd", "-F", "-f", "{file}", "-a", _LISTEN, "-n", str(_VARNISH / "{name}"), "-s", "malloc,1m")
    yield _Kind("varnish_", varnish, _VCL, most=100)


def tenants(
    programs: Programs, counts: Sequence[int], say: Callable[[str], None]
) -> tuple[list[Series], dict[str, float]]:
    """``instances_mb_N``: megabytes of N converters without traffic, what they share counted once (Pss, proc(5)).

    The same of the peers that are here, with their names in front.
    """
    series = []
    with reserved(NAME) as directory:
        nodes = [Node(f"trib-{NAME}-tenant{number}", directory) for number in range(max(counts))]
        for node in nodes:
            node.create()
        for kind in _kinds(programs):
            if shutil.which(kind.command[0]) is None:
                continue
            for count in (count for count in counts if count <= kind.most):
                with _running(kind, nodes[:count]) as pids:
                    series.append(Series(f"{kind.name}instances_mb_{count}", "MB", (_settled(pids) / 1e6,)))
                say(f"{series[-1].name} {series[-1].median:.1f}")
        take_down(NAME)
    return series, {each.name: each.median for each in series}


def _settled(pids: Sequence[int]) -> int:
    """Bytes in memory once they have stopped to grow: Varnish listens before it has compiled."""
    before, now = 0, proportional(pids)
    while now > _SETTLED * before:
        time.sleep(_SETTLE)
        before, now = now, proportional(pids)
    return now


@contextmanager
def _running(kind: _Kind, nodes: Sequence[Node]) -> Iterator[list[int]]:
    """An instance in each of ``nodes`` for the length of the block; raises Failure if one does not listen."""
    with ExitStack() as stack:
        pids = []
        for node in nodes:
            file = node.directory / f"{node.namespace}.conf"
            file.write_text(kind.settings.format(folder=_folder(node), listen=_LISTEN, origin=_ORIGIN))
            command = [word.format(file=file, name=node.namespace) for word in kind.command]
            stack.callback(shutil.rmtree, _VARNISH / node.namespace, ignore_errors=True)
            pids.append(stack.enter_context(node.start(node.namespace, command)).popen.pid)
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
            raise Failure(Exit.SYSTEM, f"{node.namespace}: nobody listens: {last or 'it printed nothing'}")
        time.sleep(0.02)
