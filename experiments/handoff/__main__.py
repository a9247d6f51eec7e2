"""The command scripts/handoff."""

import filecmp
import os
import sys
import tempfile
from contextlib import ExitStack
from json import dumps
from pathlib import Path
from typing import Any

from experiments.handoff.network import BACK_ENDS, URL, Network, standing_network
from experiments.handoff.running import wait_until_handed_over
from experiments.testbed.preflight import need_tools
from tributary.settings.cli import Arguments, Subcommands, need_root, program, run
from tributary.settings.units import Size

_DESCRIPTION = """\
Shows request hand-off on this machine: a front reads requests, and hands the client's connection to the back end that
answers. Client, switch, front and two back ends with nginx are in network namespaces of their own. One curl fetches
objects from both back ends by one kept connection; the bytes that passed each cable show that the answers did not go
by way of the front. All is removed afterwards. Needs root. Nothing outside the namespaces is changed.
"""
_CODES = """\
exit codes:
  0 it is so                            1 an object was wrong, or the front carried payload
  64 wrong arguments                    69 something is missing: curl, nginx, clang
  71 the system refused                 77 not root
"""
_TOOLS = ("ip", "sysctl", "curl", "nginx", "nft")
_TURNS = 3
"""Each back end is asked so often, in turn."""
_SHARE = 0.1
"""Of the objects' bytes; requests, messages and what keeps connections alive pass the front all the same."""


def parser() -> Arguments:
    """The commands and their arguments."""
    made = Arguments(prog="handoff", description=_DESCRIPTION, epilog=_CODES)
    commands = Subcommands(made, _CODES, metavar="demo")
    demo = commands.add("demo", _demo, "one connection, two back ends", _DESCRIPTION)
    about = "of each object (default: 10MB)"
    demo.add_argument("--size", type=Size.argument, default=Size.argument("10MB"), metavar="SIZE", help=about)
    demo.add_argument("--json", action="store_true", help="one JSON object on standard output")
    return made


def _demo(size: Size, json: bool) -> int:
    need_root("handoff demo")
    need_tools(_TOOLS)
    with tempfile.TemporaryDirectory(prefix="handoff-") as folder, standing_network("handoff", Path(folder)) as network:
        fetched = _fetched(network, size.amount)
    payload, whole = (sum(each[key] for each in fetched["objects"]) for key in ("bytes", "whole"))
    by_one_connection = fetched["connections"] == 1 and whole == len(fetched["objects"])
    fetched["holds"] = by_one_connection and fetched["cable_bytes"]["front"] < _SHARE * payload
    print(dumps(fetched, indent=2) if json else _as_text(fetched))
    return 0 if fetched["holds"] else 1


def _fetched(network: Network, size: int) -> dict[str, Any]:
    with ExitStack() as running:
        _progress("starting switch, back ends and front")
        running.enter_context(network.start_switch())
        for name in BACK_ENDS:
            running.enter_context(network.start_nginx(name))
            running.enter_context(network.start_back_end(name, relays=True))
        running.enter_context(network.start_front())
        wait_until_handed_over(network)
        _progress("fetching")
        return _fetch_by_one_connection(network, size)


def _fetch_by_one_connection(network: Network, size: int) -> dict[str, Any]:
    """Objects of so many bytes, by turns from both back ends: ``objects``, each with its ``path``, ``bytes`` and
    ``seconds``, and whether it came ``whole``; the client's ``connections``; ``cable_bytes`` that passed the cable to
    each node meanwhile, both ways.
    """
    places = {
        f"{name}/{turn}": network.objects(name) / name / str(turn) for turn in range(_TURNS) for name in BACK_ENDS
    }
    arguments = ["--write-out", "%{num_connects} %{time_total}\n"]
    for path, place in places.items():
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(os.urandom(size))
        arguments += ["--output", f"{place}-got", URL + path]
    before = _by_cable(network)
    told = network.nodes["client"].run("curl", "--silent", "--show-error", *arguments).splitlines()
    after = _by_cable(network)
    connects, seconds = zip(*(line.split() for line in told), strict=True)
    objects = [
        {
            "path": path,
            "bytes": size,
            "whole": filecmp.cmp(place, f"{place}-got", shallow=False),
            "seconds": float(took),
        }
        for (path, place), took in zip(places.items(), seconds, strict=True)
    ]
    passed = {name: after[name] - before[name] for name in after}
    return {"objects": objects, "connections": sum(map(int, connects)), "cable_bytes": passed}


def _by_cable(network: Network) -> dict[str, int]:
    return {name: sum(network.passed(name)) for name in network.nodes if name != "switch"}


def _progress(what: str) -> None:
    print(f"handoff demo: {what}", file=sys.stderr, flush=True)


def _as_text(fetched: dict[str, Any]) -> str:
    lines = [f"{'object':14} {'bytes':>12}  whole   seconds"]
    for each in fetched["objects"]:
        whole = "yes" if each["whole"] else "NO"
        lines.append(f"{each['path']:14} {each['bytes']:>12,}  {whole:5} {each['seconds']:>9.3f}")
    lines += ["", f"connections of the client: {fetched['connections']}", "bytes that passed the cable to"]
    lines += [f"  {name:12} {count:>12,}" for name, count in fetched["cable_bytes"].items()]
    lines += ["", "the front carried no payload" if fetched["holds"] else "NOT as it should be"]
    return "\n".join(lines)


main = program(parser)

if __name__ == "__main__":
    run(main, "handoff")
