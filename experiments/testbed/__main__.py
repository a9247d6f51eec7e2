"""The command ``testbed``."""

import argparse
import os
from collections.abc import Sequence
from json import dumps
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from rich.table import Table

from experiments.testbed import preflight
from experiments.testbed.appliance import WIRED_SLOW, start_converter, start_squid, start_throttler
from experiments.testbed.build import find, names, orphans, standing, take_down, take_down_orphans
from experiments.testbed.profile import add_profile_arguments, changed_profile
from experiments.testbed.selfcheck import check_links
from experiments.testbed.server import random_file, start_server
from experiments.testbed.topology import PROXY_PORT, Topology
from tributary.settings.cli import Arguments, Subcommands, program, run, some_of
from tributary.settings.errors import CommandError, Exit

_DESCRIPTION = """\
A network on one machine: a client with access links, a gateway, and a web server that speaks no MPTCP, each in a
network namespace of its own. Needs root. Nothing outside the namespaces is changed.
"""
_EXAMPLES = """\
examples:
  testbed up --with squid,converter,throttler
  testbed up --set wireless.delay=40ms --set wireless.up.loss=1%
  testbed exec client -- mptcpize run curl -x http://10.0.0.1:3128 -o /dev/null http://203.0.113.2/50000000-1.bin
  testbed exec gateway -- tc -s class show dev wired
  testbed status --json
  testbed down

exit codes:
  0 done    64 wrong arguments or profile    69 something is missing    71 the system refused    77 not root
  75 a testbed of this name stands already, or a link is not as described (is the machine busy?)
"""
_FILE_SIZE = 50_000_000
_APPLIANCE = ("squid", "converter", "throttler")


def parser() -> Arguments:
    """All commands and their arguments."""
    made = Arguments(prog="testbed", description=_DESCRIPTION, epilog=_EXAMPLES)
    commands = Subcommands(made, _EXAMPLES)
    about = "Builds a testbed, checks its links, and leaves it standing."
    up = commands.add("up", _up, "build a testbed, check its links, leave it standing", about)
    add_profile_arguments(up)
    some, known = some_of(_APPLIANCE), ", ".join(_APPLIANCE)
    up.add_argument("--with", dest="appliance", type=some, default=(), metavar="LIST", help=known)
    up.add_argument("--policy", type=Path, default=WIRED_SLOW, help="the throttler's policy (default: wired-slow.toml)")
    up.add_argument("--dry-run", action="store_true", help="show what would be built, and change nothing")
    inside = commands.add("exec", _exec, "run a command in a node", "Runs a command in a node.")
    inside.add_argument("node", help="client, gateway, server or link-NAME")
    inside.add_argument("line", nargs=argparse.REMAINDER, metavar="-- COMMAND...")
    about = "Shows the testbeds that stand, and the processes on each of their nodes."
    status = commands.add("status", _status, "show the testbeds that stand", about)
    status.add_argument("--json", action="store_true", help="as JSON")
    about = "a testbed, and whatever a killed run has left behind"
    down = commands.add("down", _down, f"remove {about}", f"Removes {about}.")
    down.add_argument("--all", action="store_true", help="remove every testbed")
    down.add_argument("--dry-run", action="store_true", help="say what would be removed, and change nothing")
    for command in (up, inside, down):
        command.add_argument("--name", default="testbed", help="the testbed's name (default: %(default)s)")
    return made


def _up(
    profile: Path, changes: Sequence[str], appliance: Sequence[str], policy: Path, dry_run: bool, name: str
) -> None:
    described = changed_profile(profile, changes)
    if dry_run:
        _show(Topology.of(described))
        return
    preflight.need_all("testbed up")
    console = Console(stderr=True)
    console.print("building the testbed")
    with standing(name, described, keep=True) as testbed:
        console.print(f"checking the links ({testbed.emulation})")
        check_links(testbed)
        file = random_file(_FILE_SIZE, seed=1)
        start_server(testbed, file.path.parent)
        if "squid" in appliance:
            start_squid(testbed)
        if "converter" in appliance:
            start_converter(testbed)
        if "throttler" in appliance:
            start_throttler(testbed, policy)
    _show(testbed.topology)
    print(f"server  http://{Topology.SERVER4}/{file.path.name}   http://[{Topology.SERVER6}]/{file.path.name}")


def _show(topology: Topology) -> None:
    table = Table("link", "client", "gateway", "down", "up", "delay each way")
    for link in topology.links:
        table.add_row(
            link.name,
            f"{link.client4}\n{link.client6}",
            f"{link.gateway4}\n{link.gateway6}",
            str(link.down.rate),
            str(link.up.rate),
            f"{link.down.delay} / {link.up.delay}",
        )
    Console().print(table)
    print(f"proxy   http://{topology.PROXY4}:{PROXY_PORT}   http://[{topology.PROXY6}]:{PROXY_PORT}")


def _exec(name: str, node: str, line: Sequence[str]) -> NoReturn:
    testbed = find(name)
    line = line[1:] if [*line[:1]] == ["--"] else line
    if node not in testbed.topology.nodes:
        accepted = ", ".join(testbed.topology.nodes)
        raise CommandError(Exit.USAGE, f"node {node!r}: accepted: {accepted}")
    if not line:
        raise CommandError(Exit.USAGE, "exec: a command is missing: exec NODE -- COMMAND...")
    command = testbed.node(node).command(line)
    os.execvp(command[0], command)


def _status(json: bool) -> None:
    rows = [row for name in names() for row in _nodes(name)]
    if json:
        print(dumps(rows, indent=2))
        return
    table = Table("testbed", "links by", "node", "namespace", "processes")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    Console().print(table if rows else "no testbed stands")


def _nodes(name: str) -> list[dict[str, object]]:
    """One row for each node of the testbed ``name``; none if it is only half built or half removed."""
    try:
        testbed = find(name)
        nodes = [(node, testbed.node(node)) for node in testbed.topology.nodes]
        return [
            {
                "testbed": name,
                "links_by": testbed.emulation,
                "node": node_name,
                "namespace": node.namespace,
                "processes": len(node.pids()),
            }
            for node_name, node in nodes
        ]
    except CommandError:
        return []


def _down(all: bool, name: str, dry_run: bool) -> None:
    gone = names() if all else [each for each in names() if each == name]
    if dry_run:
        # Only root can tell whether the run of a testbed lives.
        is_root = os.geteuid() == 0
        gone += [each for each in (orphans() if is_root else ()) if each not in gone]
        more = "" if is_root else " (root may see more: testbeds whose run was killed)"
        print((f"would be removed: {', '.join(gone)}" if gone else "nothing to remove") + more)
        return
    for each in gone:
        take_down(each)
    gone += take_down_orphans()
    print(f"removed: {', '.join(gone)}" if gone else "nothing to remove")


main = program(parser)

if __name__ == "__main__":
    run(main, "testbed")
