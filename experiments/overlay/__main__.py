"""The command ``overlay up``, which scripts/overlay calls."""

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from json import dumps
from pathlib import Path
from typing import Any

from experiments.overlay.mesh import MOST_NODES, SERVER, Mesh, standing_mesh
from experiments.overlay.running import ENDPOINT, PROXY, REACHED, URL, running
from experiments.testbed.links import emulation, need_an_emulator
from experiments.testbed.preflight import need_tools
from overlay import control
from overlay.programs import CALCULATOR, ask
from tributary.settings.cli import Arguments, need_root, program, run, whole_number
from tributary.settings.errors import CommandError, Exit

_DESCRIPTION = f"""\
Builds an overlay on this machine, each node in a network namespace of its own, with the round-trip times of GRAPH: a
converter and an agent on every node, etcd and a controller, a client at the first node, and a web server behind the
last one. It stays until Ctrl-C, or until COMMAND has ended, which runs on the client with http_proxy set; then all is
removed. Needs root. Nothing outside the namespaces is changed.

The server has a file of any size: {URL}100000 is 100 kB. Links carry 100 Mbit/s.
"""
_EXAMPLES = f"""\
examples:
  overlay up overlay/graphs/1755-latencies.intra
  overlay up GRAPH --nodes London,+UnitedKingdom201 Paris,+France193 Milan,+Italy217
  overlay up GRAPH --nodes 4 --run curl -o /dev/null -w '%{{time_total}}' {URL}465000

exit codes:
  0 done, or ended by Ctrl-C                    64 wrong arguments, or a node that the graph has not
  65 the graph is refused: which line           66 the graph cannot be read
  69 something is missing: etcd, the emulator   71 the system refused, or the tables do not become complete
  75 an overlay of this name stands already     77 not root
  COMMAND's own, if there is one
"""
_DEFAULT_NODES = 12
_FEWEST_NODES = 3
_TOOLS = ("ip", "sysctl", "ethtool", "etcd")


def parser() -> Arguments:
    """Its arguments."""
    made = Arguments(prog="overlay up", description=_DESCRIPTION, epilog=_EXAMPLES)
    made.set_handler(_up)
    made.add_argument("graph", type=Path, metavar="GRAPH", help="the file with the round-trip times")
    about = (
        f"how many of the graph's, evenly spread, or which: {_FEWEST_NODES} to {MOST_NODES} (default: {_DEFAULT_NODES})"
    )
    made.add_argument("--nodes", nargs="+", default=(str(_DEFAULT_NODES),), metavar="N | NODE", help=about)
    about = "chains are chosen for transfers of so many rounds, 1 to 30 (default: %(default)s)"
    made.add_argument("--rounds", type=whole_number(1, 30), default=5, metavar="N", help=about)
    made.add_argument("--name", default="overlay", help="the overlay's name (default: %(default)s)")
    made.add_argument("--json", action="store_true", help="say what stands as one JSON object on standard output")
    about = "run this on the client, and end with it"
    made.add_argument("--run", dest="line", nargs=argparse.REMAINDER, default=(), metavar="COMMAND", help=about)
    return made


def _up(graph: Path, nodes: Sequence[str], rounds: int, name: str, json: bool, line: Sequence[str]) -> int:
    """``nodes`` are names, or a single number; ``line`` is the command to run, if there is one."""
    need_root("overlay up")
    control.build()  # which installs etcd
    need_tools(_TOOLS, "scripts/overlay controller --help installs etcd")
    need_an_emulator()
    names, delays = chosen(ask(CALCULATOR, ["map", "--", str(graph)]), nodes)
    _progress(f"linking {len(names)} nodes")
    with standing_mesh(name, names, delays) as mesh:
        _progress("starting converters and agents; waiting for the tables")
        with running(mesh, rounds):
            said = dumps(_as_json(mesh), indent=2) if json else _as_text(mesh)
            return _run(mesh, said, line) if line else _stay(said)


def chosen(graph: Any, wanted: Sequence[str]) -> tuple[list[str], list[list[float]]]:
    """The nodes of ``graph``, as the calculator has it, that are ``wanted``, and the round-trip times between them, in
    milliseconds; raises CommandError (exit 64).
    """
    known, accepted = graph["nodes"], f"{_FEWEST_NODES} to {MOST_NODES} nodes"
    names = list(wanted)
    if len(names) == 1 and names[0].isdecimal() and _FEWEST_NODES <= (count := int(names[0])) <= MOST_NODES:
        if count > len(known):
            raise CommandError(Exit.USAGE, f"--nodes {count}: accepted: at most the graph's {len(known)}")
        names = [known[place * len(known) // count] for place in range(count)]
    if not _FEWEST_NODES <= len(set(names)) == len(names) <= MOST_NODES:
        raise CommandError(
            Exit.USAGE, f"--nodes {' '.join(names)}: accepted: {accepted}, as a number or by their names"
        )
    if unknown := [name for name in names if name not in known]:
        raise CommandError(
            Exit.USAGE, f"--nodes: {unknown[0]} is no node of the graph: accepted: {', '.join(known[:3])}, ..."
        )
    places = [known.index(name) for name in names]
    delays = graph["delays_ms"]
    return names, [[delays[low][high] for high in places] for low in places]


def _progress(what: str) -> None:
    print(f"overlay up: {what}", file=sys.stderr, flush=True)


def _as_json(mesh: Mesh) -> dict[str, Any]:
    return {
        "nodes": [
            {"name": name, "namespace": node.namespace, "address": mesh.address(name)}
            for name, node in mesh.nodes.items()
        ],
        "links": mesh.links,
        "links_by": emulation(),
        "client": mesh.client.namespace,
        "server": {"namespace": mesh.server.namespace, "url": URL},
        "proxy": PROXY,
        "endpoints": ENDPOINT,
    }


def _as_text(mesh: Mesh) -> str:
    first, *_, last = mesh.nodes
    inside = f"ip netns exec {mesh.client.namespace}"
    return "\n".join(
        [
            f"{len(mesh.nodes)} nodes; the client is at {first}, the server behind {last}",
            f"fetch    {inside} curl -x {PROXY} -o /dev/null -w '%{{time_total}}\\n' {URL}100000",
            f"direct   {inside} curl -o /dev/null -w '%{{time_total}}\\n' {URL}100000",
            f"explain  {inside} scripts/overlay explain {first} {SERVER} {' '.join(REACHED)}",
            f"status   {inside} scripts/overlay status {' '.join(REACHED)}",
            "Ctrl-C ends it",
        ]
    )


def _run(mesh: Mesh, said: str, line: Sequence[str]) -> int:
    print(said, flush=True)
    environment = {**os.environ, "http_proxy": PROXY}
    return subprocess.run(mesh.client.command(line), env=environment, check=False).returncode


def _stay(said: str) -> int:
    with suppress(KeyboardInterrupt):
        print(said, flush=True)
        signal.pause()
    _progress("ending")
    return 0


main = program(parser)

if __name__ == "__main__":
    run(main, "overlay up")
