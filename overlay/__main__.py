"""The command scripts/overlay: the best chains of converters, from a graph of delays or from the control plane."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from json import dumps
from pathlib import Path
from typing import Any

from overlay import access, control, explanation, programs
from overlay.programs import CALCULATOR, ask
from overlay.reader import cli, etcd
from tributary.settings import metrics_argument
from tributary.settings.cli import Arguments, Contradiction, Subcommands, parsed_by, run, whole_number
from tributary.settings.errors import Exit, refused
from tributary.settings.hosts import Address, Target
from tributary.settings.units import Size

_MAX_ROUNDS = 60
_ROUNDS = whole_number(1, _MAX_ROUNDS)

_DESCRIPTION = """\
Computes which chain of converters a transfer should take, from the round-trip times between them: those of a file
(paths, simulate, map), or those that agents measure; then a controller publishes tables of chains, from which agents
write the routes of their converters (agent, controller, status, explain). Needs no root.
"""
_COMMANDS = """\
Four more commands have a --help of their own:
  agent NAME --address IP:PORT   registers a node, and publishes the round-trip times to its peers
  controller NAME                computes and publishes the tables; without --endpoints it starts its own etcd
  dns FILE                       a name server that sends each client to its ingress
  up GRAPH                       a whole overlay on this machine, in network namespaces; needs root

"""
_STATUS = """\
Prints the elected controller, what it refused, the live nodes with the number of round-trip times that each published,
the pressure on their processors and whether their converters answer, and version and age of each ingress's table, and
of the one that its converter uses. Ages depend on the clocks of the controller and of this machine.
"""
_EXPLAIN = """\
Prints the path of connections from INGRESS to SERVER: the egress, the size of the transfer and where that comes from,
the best chain of converters for that size, its time by the model below, and the other chains in the order in which the
converter tries them. INGRESS is a node whose agent has --egresses.
"""
_MODEL = """\
A transfer of r rounds over a chain takes half the sum of the chain's round-trip times, and r - 1 times the largest of
them. A sender begins with 15 kB and doubles each round, so that r rounds carry 15 kB * (2^r - 1): 1 round 15 kB,
5 rounds 465 kB, 10 rounds 15 MB.

GRAPH is a text file with one link per line, NODE NODE MILLISECONDS: the round-trip time, 0.001 to 4000, once or the
same in both directions. # begins a comment. Nodes without a link get the delay of the shortest path. Examples are in
overlay/graphs/.

"""
_CODES = """\
exit codes:
  0 done                                64 wrong arguments, or an unknown node or server
  65 a line of the graph is refused     66 the graph, or a certificate, cannot be read
  69 the program is missing, or etcd does not answer
  71 the program does not build, or failed
  75 the name has a certificate, or another role; for serve: another one runs, or the port for metrics is taken
  77 etcd refused, or root must install packages for the build: see scripts/setup.d/packages-overlay.txt
"""
_PATHS = """\
Prints the fastest chain of converters for a transfer from A, the ingress, to B, the egress, with the fewest converters
among equals; and all chains that are best for some number of rounds: none is shorter without a longer hop.
"""
_SIMULATE = """\
Compares the best chains of all pairs of nodes with chains chosen by one criterion:
  shortest   the least sum of round-trip times: the direct link, unless a detour is shorter
  minimax    the least longest hop, and the shortest chain of these
  tree       the least longest hop: along the shortest spanning tree
Prints how much longer transfers take on these, in percent of the best chain's time, and the mean number of converters
of a chain, including both ends. With --peers also for chains that are chosen if each node measures only some others,
half of them the nearest, half random: with estimates for all other pairs, and without.
"""


_MAP = """\
Draws the nodes, placed by their round-trip times, the links that the best chains of all pairs use, wider for more
pairs, and the chain from A to B. Writes an SVG file and prints its name.
"""


def main(arguments: Sequence[str]) -> int:
    """Runs an ``overlay`` command; returns its exit code."""
    if arguments[:1] in (["agent"], ["controller"]):
        programs.execute(control.PROGRAM, arguments)
    if arguments[:1] == ["dns"]:
        programs.execute("overlay-dns", arguments[1:])
    if arguments[:1] == ["up"]:
        os.execv(sys.executable, [sys.executable, "-m", "experiments.overlay", *arguments[1:]])
    return parser().dispatch(arguments)


def parser() -> Arguments:
    """The parser of all commands."""
    made = Arguments(prog="overlay", description=_DESCRIPTION, epilog=_COMMANDS + _MODEL + _CODES)
    names = (
        "paths | simulate | map | enrol | authorize | revoke | status | explain | serve | agent | controller | dns | up"
    )
    commands = Subcommands(made, _CODES, metavar=names)
    model = _MODEL + _CODES
    paths = commands.add("paths", _paths, "the best chain between two nodes", _PATHS, model)
    simulate = commands.add("simulate", _simulate, "compare with chains chosen by one criterion", _SIMULATE, model)
    about = "a picture of the nodes, the links in use and a pair's chain"
    map_ = commands.add("map", _map, about, _MAP, model)
    for each in (paths, simulate, map_):
        each.add_argument("graph", type=Path, metavar="GRAPH", help="the file with the round-trip times: see below")
    paths.add_argument("a", metavar="A", help="the ingress")
    paths.add_argument("b", metavar="B", help="the egress")
    map_.add_argument("pair", nargs="*", metavar="A B", help="the ends of the chain to draw (default: none)")
    for each, of in ((paths, "the transfer"), (map_, "transfers")):
        about = f"round trips of {of}, 1 to {_MAX_ROUNDS} (default: %(default)s)"
        each.add_argument("--rounds", type=_ROUNDS, default=5, metavar="N", help=about)
    about = f"numbers of rounds, 1 to {_MAX_ROUNDS} (default: 1,5,10)"
    simulate.add_argument("--rounds", type=_many_rounds, default=(1, 5, 10), metavar="N,...", help=about)
    about = "also for nodes that measure only so many others, 4 to 1000"
    simulate.add_argument("--peers", type=whole_number(4, 1000), metavar="N", help=about)
    about = "the file to write (default: %(default)s)"
    map_.add_argument("--output", type=Path, default=Path("overlay.svg"), metavar="FILE", help=about)
    access.add(commands)
    status = commands.add("status", _status, "the state of the control plane", _STATUS)
    explain = commands.add("explain", _explain, "the path from an ingress to a server", _EXPLAIN, model)
    explain.add_argument("ingress", metavar="INGRESS", help="the ingress")
    address = parsed_by(ip_address, "an IP address, such as 192.0.2.1")
    explain.add_argument("server", type=address, metavar="SERVER", help="the server's IP address")
    about = "the server's port, 1 to 65535 (default: the ingress's line for all ports)"
    explain.add_argument("--port", type=whole_number(1, 65535), metavar="PORT", help=about)
    about = "the size of the transfer, such as 100kB (default: the rounds of the ingress's line)"
    explain.add_argument("--size", type=Size.argument, metavar="SIZE", help=about)
    serve = commands.add("serve", _serve, "read the overlay for this machine's console", cli.DESCRIPTION)
    metrics_argument.add(serve)
    for each in (status, explain, serve):
        etcd.add_arguments(each)
    for each in (paths, simulate, map_, status, explain):
        each.add_argument("--json", action="store_true", help="one JSON object on standard output")
    return made


def _many_rounds(text: str) -> tuple[int, ...]:
    return tuple(map(_ROUNDS, text.split(",")))


def _paths(graph: Path, a: str, b: str, rounds: int, json: bool) -> None:
    _print(ask(CALCULATOR, ["paths", "--rounds", str(rounds), "--", str(graph), a, b]), json, _chain_text)


def _simulate(graph: Path, rounds: Sequence[int], peers: int | None, json: bool) -> None:
    asked = ["--rounds", ",".join(map(str, rounds)), *([] if peers is None else [f"--peers={peers}"])]
    _print(ask(CALCULATOR, ["simulate", *asked, "--", str(graph)]), json, _comparison_text)


def _map(graph: Path, pair: Sequence[str], rounds: int, output: Path, json: bool) -> None:
    if len(pair) not in (0, 2):
        raise Contradiction("map: accepted: no node or two, A and B")
    asked = ["--rounds", str(rounds), "--", str(graph)]
    chain = ask(CALCULATOR, ["paths", *asked, *pair])["best"]["nodes"] if pair else []
    answer = ask(CALCULATOR, ["map", *asked])
    if json:
        print(dumps({**answer, "chain": chain}, indent=2))
        return
    # Loading these takes half a second.
    from matplotlib.figure import Figure

    from overlay.picture import draw

    figure = Figure(layout="constrained")
    draw(figure, answer, chain)
    with refused(Exit.SYSTEM, output, "cannot be written"):
        figure.savefig(output, format="svg")
    print(output)


def _status(reached: Sequence[str], json: bool) -> None:
    _print(ask(control.PROGRAM, ["status", *reached]), json, control.text)


def _serve(reached: Sequence[str], metrics: Target | None) -> None:
    cli.read(control.build(), reached, metrics)


def _explain(
    ingress: str, server: Address, port: int | None, size: Size | None, reached: Sequence[str], json: bool
) -> None:
    given = {"port": port, "bytes": None if size is None else size.amount}
    options = [f"--{name}={value}" for name, value in given.items() if value is not None]
    answer = ask(control.PROGRAM, ["explain", *reached, *options, "--", ingress, str(server)])
    _print(answer, json, explanation.text)


def _print(answer: Any, as_json: bool, text: Callable[[Any], str]) -> None:
    print(dumps(answer, indent=2) if as_json else text(answer))


def _chain_text(answer: Mapping[str, Any]) -> str:
    best, rounds = answer["best"], answer["rounds"]
    size = explanation.up_to_kb(rounds)
    direct = answer["direct"]["time_ms"]
    lines = [
        f"{rounds} rounds, up to {size:,} kB: {best['time_ms']:.1f} ms; {direct:.1f} ms without converters",
        "",
        f"  {best['nodes'][0]}",
    ]
    lines += [f"  {node}  {hop:g} ms" for node, hop in zip(best["nodes"][1:], best["hops_ms"], strict=True)]
    lines += ["", f"{'longest hop':>12} {'sum':>8} {'time':>8}  chain"]
    lines += [
        f"{each['longest_ms']:>9g} ms {each['length_ms']:>5g} ms {each['time_ms']:>5.1f} ms  {' '.join(each['nodes'])}"
        for each in answer["front"]
    ]
    return "\n".join(lines)


def _comparison_text(answer: Mapping[str, Any]) -> str:
    lines = [
        f"{answer['nodes']} nodes, {answer['pairs']:,} pairs; time in excess of the best chain",
        "",
        "rounds chosen by converters   pairs slower   by over 40 %   median  80th pc.  95th pc.     most",
    ]
    for each in answer["comparisons"]:
        lines.append(f"{each['rounds']:>6} {'best chain':9} {each['converters']:>10.2f}")
        for name in ("shortest", "minimax", "tree"):
            other = each[name]
            shares = f"{other['pairs_worse_percent']:>12.1f} % {other['pairs_40_worse_percent']:>12.1f} %"
            lines.append(
                f"{'':6} {name:9} {other['converters']:>11.2f} {shares} {_percentiles(other['worse_percent'])}"
            )
    return "\n".join([*lines, *(_sampled_lines(answer["sampled"]) if answer["sampled"] else [])])


def _percentiles(percent: Sequence[float]) -> str:
    return " ".join(f"{percent[at]:>7.1f} %" for at in (50, 80, 95, 100))


def _sampled_lines(sampled: Mapping[str, Any]) -> list[str]:
    measured = f"{sampled['pairs_measured_percent']:.1f} % of the pairs are measured"
    lines = ["", f"if each node measures {sampled['peers']} others, {measured}"]
    if sampled["error_percent"]:
        lines.append(f"  estimates of the others are off by  {_percentiles(sampled['error_percent'])}")
    for each in sampled["comparisons"]:
        for name, chains in (("estimates", "estimated"), ("measured links alone", "measured")):
            longer = _percentiles(each[chains]["worse_percent"])
            mean = each[chains]["mean_worse_percent"]
            lines.append(f"  {each['rounds']:>2} rounds by {name:20} longer by {longer}, {mean:.1f} % on average")
    return lines


if __name__ == "__main__":
    run(main, "overlay")
