"""The command ``demo``."""

import csv
from collections.abc import Sequence
from functools import partial
from json import dumps
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn
from rich.table import Table

from experiments.demo.summary import WAYS, WIRED, WIRELESS, BeyondWindow, Run, Way, claims, kernels_part, summary
from experiments.enforcement import watched
from experiments.fetch import fetch
from experiments.record import Download
from experiments.results import manifest, results_folder, write_json
from experiments.study.blueprint import TestbedBlueprint
from experiments.study.command import add_results, exit_code, tell
from experiments.testbed import preflight
from experiments.testbed.appliance import WIRED_SLOW, start_throttler
from experiments.testbed.build import Testbed, standing, take_down_orphans
from experiments.testbed.profile import add_profile_arguments, add_tolerance, changed_profile
from experiments.testbed.selfcheck import Reading, as_json
from experiments.testbed.server import File, random_file
from experiments.testbed.topology import Profile
from experiments.testbed.usage import counted
from tributary.settings.cli import Arguments, program, run
from tributary.settings.errors import CommandError, Exit
from tributary.settings.files import read
from tributary.settings.units import Rate, Share, Size

_DESCRIPTION = """\
Builds a network of namespaces (a client with a wired and a wireless link, a gateway, a server without MPTCP),
downloads a file five ways, and shows what each path carried: legacy TCP over either link, MPTCP through the
gateway's Squid and through its native converter, and through Squid while the throttler holds the wired subflow to
5 Mbit/s. Needs root.
"""
_EPILOG = """\
Other scenarios, with arguments of their own: scripts/demo home, a home router and the gateway that it is enrolled at;
scripts/demo console, the page beside a testbed with traffic.

Results go to results/demo/TIME/: manifest.json, summary.json, throughput.csv, throughput.png.

exit codes:
  0 every claim holds     1 a claim does not hold     64 wrong arguments
  69 something is missing 71 the system refused       77 not root
  75 a demo runs already, or a link is not as described (is the machine busy?)
  130 Ctrl-C, 143 SIGTERM: the testbed is removed
After kill -9, scripts/testbed down removes what was left.
"""
_SEED = 1


def _demo(
    profile: Path,
    changes: Sequence[str],
    size: Size,
    tolerance: Share,
    ipv6: bool,
    results: Path,
    name: str,
    keep: bool,
    json: bool,
) -> int:
    described = changed_profile(profile, changes)
    if set(described.links) != {WIRED, WIRELESS}:
        accepted = "the two that the demo is about: wired, wireless"
        raise CommandError(Exit.USAGE, f"{profile}: links: accepted: {accepted}")
    preflight.need_all("demo")
    take_down_orphans()
    with results_folder("demo", results) as folder:
        measured = _measure(name, described, folder, size, tolerance, ipv6, keep)
        write_json(folder / "summary.json", summary(measured))
        _write_series(measured, folder / "throughput.csv")
        # Not at the top: what draws takes a second to load, and help draws nothing.
        from experiments.demo.plot import plot

        plot(measured, folder / "throughput.png")
    if json:
        print(dumps(summary(measured), indent=2))
    else:
        _show(measured, size, folder.with_suffix(""))
    return exit_code(claims(measured))


def parser() -> Arguments:
    """The arguments of the demo."""
    parser = Arguments(prog="demo", description=_DESCRIPTION, epilog=_EPILOG)
    parser.set_handler(_demo)
    add_profile_arguments(parser)
    parser.add_argument("--size", type=Size.argument, default=Size(50_000_000), help="of the file (default: 50MB)")
    add_tolerance(parser)
    parser.add_argument("--ipv6", action="store_true", help="use IPv6 throughout")
    add_results(parser, "where to put them")
    parser.add_argument("--name", default="demo", help="the testbed's name (default: demo)")
    parser.add_argument("--keep", action="store_true", help="leave the testbed standing, for testbed exec")
    parser.add_argument("--json", action="store_true", help="print summary.json, and nothing else, on standard output")
    return parser


def _measure(name: str, profile: Profile, folder: Path, size: Size, tolerance: Share, ipv6: bool, keep: bool) -> Run:
    console = Console(stderr=True)
    console.print("making the file and the testbed, checking its links, starting its programs")
    file = random_file(size.amount, _SEED)
    held = Rate.parse(read(WIRED_SLOW)["rules"][0]["rate"]).amount / 1e6
    blueprint = TestbedBlueprint(profile, tuned=False, stands=partial(standing, keep=keep))
    with blueprint.standing(name, 0, tolerance.fraction) as made:
        testbed = made.built
        write_json(folder / "manifest.json", _manifest(testbed, profile, file, made.links))
        columns = (TextColumn("{task.description:26}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
            *free, throttled = WAYS
            downloads = {way.name: _download(testbed, way, file, ipv6, progress) for way in free}
            start_throttler(testbed, WIRED_SLOW)
            with watched(testbed) as seen, counted(testbed.client) as client, counted(testbed.gateway) as gateway:
                downloads[throttled.name] = _download(testbed, throttled, file, ipv6, progress)
        beyond_window = BeyondWindow(client()["MPTcpExtNoDSSInWindow"], gateway()["MPTcpExtMPTCPRetrans"])
        return Run(downloads, file.sha256, testbed.topology, held, seen(), beyond_window)


def _manifest(testbed: Testbed, profile: Profile, file: File, readings: list[Reading]) -> dict[str, object]:
    return manifest(
        "demo",
        topology=profile.model_dump(mode="json", exclude_none=True),
        congestion_control=testbed.gateway.run("sysctl", "-n", "net.ipv4.tcp_congestion_control").strip(),
        links={"emulated_by": testbed.emulation, "measured": as_json(readings)},
        seeds={"file": file.seed, "links": {link.name: link.number for link in testbed.topology.links}},
        file={"bytes": file.size, "sha256": file.sha256},
        policy=WIRED_SLOW.name,
    )


def _download(testbed: Testbed, way: Way, file: File, ipv6: bool, progress: Progress) -> Download:
    task = progress.add_task(way.title, total=file.size)
    return fetch(
        testbed,
        way.name,
        file,
        way.link,
        way.proxy,
        ipv6,
        # The kernel counts the response's head and what came by both subflows as well.
        lambda received: progress.update(task, completed=min(file.size, received)),
    )


def _write_series(run: Run, path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["download", "seconds", "path", "bytes", "mbps"])
        for download in run.downloads.values():
            for at, path_name, count, rate in download.rates():
                writer.writerow([download.name, f"{at:.3f}", path_name, count, f"{rate:.3f}"])


def _show(run: Run, size: Size, folder: Path) -> None:
    table = Table("download", "time", "Mbit/s", "path", "bytes", "share", title=f"{size}, five ways")
    for way in WAYS:
        download = run.downloads[way.name]
        end = download.samples[-1].by_path()
        table.add_row(
            way.title,
            f"{download.seconds:.2f} s",
            f"{download.mbps:.1f}",
            "\n".join(end),
            "\n".join(f"{count:,}" for count in end.values()),
            "\n".join(f"{count / sum(end.values()):.1%}" for count in end.values()),
            end_section=True,
        )
    console = Console()
    console.print(table)
    tell(console, claims(run))
    if found := kernels_part(run):
        console.print(found, highlight=False, soft_wrap=True)
    console.print(f"\n{run.enforcement.milliseconds:.1f} ms from the join's third ACK to the first packet held")
    console.print(f"results in {folder}", soft_wrap=True)


main = program(parser)

if __name__ == "__main__":
    run(main, "demo")
