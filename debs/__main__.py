"""The command build-deb."""

import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from debs import build
from debs.release import ARCHITECTURES, SUITES
from tributary.places import CACHE, ROOT
from tributary.settings import entry

DESCRIPTION = """\
Makes the Debian packages of Tributary for one release of Debian or Ubuntu and one processor:

  tributary-common      Python modules and libraries, kernel parameters, the doctor
  tributary-converter   the native converter
  tributary-throttler   the throttler
  tributary-squid       Squid as the HTTP converter
  tributary-handoff     switch and back end of a request hand-off
  tributary-cpe         the home router's links
  tributary-image       the first boot of an image; no other machine needs it

Nothing of the target runs while they are made: packages for Debian 13, Ubuntu and arm64 come out of Debian 12 on amd64
just as well. The same commit gives the same bytes."""

EPILOG = """\
version
  pyproject.toml's, with the commit's time and hash unless the commit has the tag vVERSION; files that differ from the
  commit show as `modified`. Only files that git knows get into a package.

what it needs
  The programs in Rust: cargo builds them, statically, so that one build serves every release. For the other processor
  that is done in a Debian 13 of its own, made by mmdebstrap(1) for the time of the build. --converter takes a converter
  that is there; a dynamic one must not ask for a newer glibc than the release has. clang compiles what of them runs in
  the kernel.
  Python libraries: pip fetches the wheels that requirements.lock names, by their hashes. Both are kept in
  $TRIBUTARY_CACHE (/var/cache/tributary).

environment
  DEBFULLNAME, DEBEMAIL   who answers for the packages

exit status
  64 wrong arguments, a program that would not run on the target, versions that contradict; 66 BINARY cannot be read;
  69 something is missing: dpkg-deb, git, cargo, mmdebstrap, a wheel; 71 a step failed, or OUTPUT cannot be written;
  130 Ctrl-C; 143 SIGTERM

example
  scripts/build-deb --suite bookworm --arch arm64 && ls results/packages"""


@dataclass(frozen=True)
class Options:
    """What build-deb is given; ``suite`` and ``arch`` are names of the tables in debs/release.py."""

    suite: str
    arch: str
    output: Path
    converter: Path | None
    json: bool
    dry_run: bool


def main(words: Sequence[str]) -> int:
    """Run build-deb; raises Failure."""
    return parser().perform(words)


def _build(options: Options) -> None:
    order = build.Order(
        SUITES[options.suite],
        ARCHITECTURES[options.arch],
        options.output,
        CACHE / "packages",
        options.converter,
    )
    if options.dry_run:
        _show_plan(build.plan(order), options.json)
    else:
        _show(build.packages(order), options.json)


def parser() -> entry.Arguments:
    """The arguments of build-deb."""
    arguments = entry.Arguments(prog="build-deb", description=DESCRIPTION, epilog=EPILOG)
    arguments.does(Options, _build)
    suite, architecture = _here()
    arguments.add_argument(
        "--suite",
        choices=SUITES,
        default=suite,
        help=f"Debian 12, 13 or Ubuntu 24.04 (default here: {suite})",
    )
    arguments.add_argument(
        "--arch", choices=ARCHITECTURES, default=architecture, help=f"processor (default here: {architecture})"
    )
    arguments.add_argument(
        "--output",
        type=Path,
        default=ROOT / "results/packages",
        metavar="DIR",
        help="where the packages go (default: results/packages)",
    )
    arguments.add_argument(
        "--converter", type=Path, metavar="BINARY", help="a converter that is built already (default: build it)"
    )
    arguments.add_argument("--json", action="store_true", help="one JSON document on standard output")
    arguments.add_argument(
        "--dry-run", action="store_true", help="say what would be made; fetch, build and write nothing"
    )
    return arguments


def _here() -> tuple[str, str]:
    """This machine's release and processor, or the first that we know."""
    try:
        suite = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        suite = ""
    machines = {each.machine: each.name for each in ARCHITECTURES.values()}
    return suite if suite in SUITES else "trixie", machines.get(platform.machine(), "amd64")


def _show_plan(plan: dict[str, object], as_json: bool) -> None:
    if as_json:
        print(json.dumps(plan, indent=2))
        return
    for key, value in plan.items():
        print(f"{key}: {', '.join(value) if isinstance(value, list) else value}")


def _show(made: Sequence[build.Made], as_json: bool) -> None:
    if as_json:
        print(json.dumps([{**vars(each), "file": str(each.file)} for each in made], indent=2))
        return
    for each in made:
        print(f"{each.sha256}  {each.file}")


if __name__ == "__main__":
    entry.run(main, "build-deb")
