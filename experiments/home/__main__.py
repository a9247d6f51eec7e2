"""The command ``demo home``."""

from json import dumps
from pathlib import Path

from rich.console import Console

from experiments.home import events
from experiments.home.household import WIREGUARD, Household, household
from experiments.home.network import PORTS
from experiments.home.showing import MOST_CHANGES, Shown, claims, summary
from experiments.home.traffic import alone, mbps
from experiments.results import manifest, results_folder, write_json
from experiments.study.command import add_results, exit_code, tell
from experiments.testbed import preflight
from experiments.testbed.build import take_down_orphans
from experiments.testbed.profile import PROFILES, add_tolerance
from experiments.testbed.selfcheck import as_json
from experiments.testbed.topology import Profile
from tributary.settings.cli import Arguments, program, run
from tributary.settings.files import load
from tributary.settings.units import Share

PROFILE = PROFILES / "home.toml"
_DESCRIPTION = """\
Builds a home on network namespaces (a device, its home router with two links behind address translation, the gateway
that the router is enrolled at, a server without MPTCP), with all programs of an image and of a gateway, and shows what
the tunnels between both give the device. Needs root and WireGuard: the kernel's, or wireguard-go(1).
"""
_EPILOG = """\
Results go to results/demo-home/TIME/: manifest.json, summary.json.

exit codes:
  0 every claim holds     1 a claim does not hold     64 wrong arguments
  69 something is missing 71 the system refused       77 not root
  75 a demo runs already, or a link is not as described (is the machine busy?)
After kill -9, scripts/testbed down removes what was left.
"""
_LINKS = 2
_SECONDS = 6.0
"""Of each download that is measured."""
_EVERY = 2.0
"""Seconds between a link's addresses."""


def parser() -> Arguments:
    """The arguments of the demo."""
    made = Arguments(prog="demo home", description=_DESCRIPTION, epilog=_EPILOG)
    made.set_handler(_demo)
    add_tolerance(made)
    add_results(made, "where to put them")
    made.add_argument("--name", default="home", help="the network's name (default: home)")
    made.add_argument("--json", action="store_true", help="print summary.json, and nothing else, on standard output")
    return made


def _demo(tolerance: Share, results: Path, name: str, json: bool) -> int:
    preflight.need_all("demo home")
    take_down_orphans()
    blueprint = household(load(PROFILE, Profile), WIREGUARD, _LINKS)
    console = Console(stderr=True)
    with results_folder("demo-home", results) as folder:
        console.print("making the network, measuring its links, starting all programs")
        with blueprint.standing(name, 0, tolerance.fraction) as standing:
            about = {"emulated_by": standing.emulation, "measured": as_json(standing.links)}
            write_json(folder / "manifest.json", manifest("demo", **blueprint.as_json(), emulation=about))
            shown = _shown(standing.built, console)
        write_json(folder / "summary.json", summary(shown))
    if json:
        print(dumps(summary(shown), indent=2))
    else:
        tell(Console(), claims(shown))
        Console().print(f"\nresults in {folder.with_suffix('')}", soft_wrap=True)
    return exit_code(claims(shown))


def _shown(home: Household, console: Console) -> Shown:
    first, second = home.network.links
    console.print("each tunnel by itself")
    by_link = alone(home, _SECONDS)
    console.print(f"a device's downloads from ports {', '.join(map(str, PORTS))}")
    bonded = {port: mbps(home, _SECONDS, port) for port in PORTS}
    console.print(f"one more, while the provider of {second.name} takes MPTCP's option out of all segments")
    with home.network.stripping(second):
        stripped = mbps(home, _SECONDS)
    console.print(f"a call and a download, while {first.name} is cut")
    cut = events.cut(home, first, events.CARRIER)
    console.print(f"a download, while {second.name} has another address every {_EVERY:g} s")
    wandered = events.wander(home, second, MOST_CHANGES, _EVERY)
    console.print("a stranger who knocks at the gateway, and a router that is shut out")
    return Shown(by_link, bonded, stripped, cut, wandered, events.knock(home), events.revoke(home))


main = program(parser)

if __name__ == "__main__":
    run(main, "demo")
