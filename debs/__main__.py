"""The command build-deb."""

import argparse
import os
import platform
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

from debs import build, repository
from debs.release import ARCHITECTURES, SUITES
from tributary.paths import CACHE, ROOT
from tributary.settings import cli

DESCRIPTION = """\
Makes the Debian packages of Tributary for one release of Debian or Ubuntu and one processor:

  tributary-common      Python modules and libraries, kernel parameters, the doctor
  tributary-converter   the native converter
  tributary-throttler   the throttler
  tributary-squid       Squid as the HTTP converter
  tributary-handoff     switch and back end of a request hand-off
  tributary-overlay     agents and controllers of an overlay, and its state for the console
  tributary-router      the home router's links
  tributary-gateway     home routers let in by keys
  tributary-console     the page to look and to steer
  tributary-image       the first boot of an image; no other machine needs it

Nothing of the target runs while they are made: packages for Debian 13, Ubuntu and arm64 come out of Debian 12 on amd64
just as well. The same commit gives the same bytes.

With --repository, they go into a signed repository, from which apt installs and upgrades them."""

EPILOG = """\
version
  pyproject.toml's, with the commit's time and hash unless the commit has the tag vVERSION; files that differ from the
  commit show as `modified`. Only files that git knows get into a package.

repository
  --repository builds the packages of every release and processor, or of the one that --suite and --arch name, or takes
  those that lie in --packages, and adds them to FOLDER:

  pool/SUITE/*.deb                packages: their versions say for which release they are
  dists/SUITE/InRelease           what a release has, signed; as Release and Release.gpg too
  dists/SUITE/tributary.sources   for /etc/apt/sources.list.d: address and key
  key.asc                         the public key

  Any web server can publish FOLDER. All indexes are made and signed anew each time. A version that is there never
  changes; to withdraw one, delete its file in pool/ and run with --packages FOLDER/pool.

  --key takes a key without a passphrase from a file with mode 0600 outside of the checkout, or one in your keyring by
  its fingerprint, whose passphrase gpg-agent(1) asks for. To make one:
      gpg --quick-generate-key "Packages of Example <packages@example.net>" ed25519 sign 3y

what it needs
  The programs in Rust: cargo builds them, statically, so that one build serves every release. For the other processor
  that is done in a Debian 13 of its own, made by mmdebstrap(1) for the time of the build. --converter takes a converter
  that is there; a dynamic one must not ask for a newer glibc than the release has. clang compiles what of them runs in
  the kernel, protoc (protobuf-compiler, libprotobuf-dev) the overlay's messages.
  Python libraries: pip fetches the wheels that requirements.lock names, by their hashes. Both are kept in
  $TRIBUTARY_CACHE (/var/cache/tributary).

environment
  DEBFULLNAME, DEBEMAIL   who answers for the packages
  GNUPGHOME               the keyring that has the key
  SOURCE_DATE_EPOCH       the date of a repository, in seconds since 1970 (default: now): the same packages, date and
                          key, of a kind whose signatures are deterministic such as ed25519, give the same bytes

exit status
  64 wrong arguments, a program that would not run on the target, versions that contradict, a repository that another
  key signed; 65 a package or key that is none, a package for no known release, a version with other bytes than
  published; 66 BINARY, packages or key cannot be read; 69 something is missing: dpkg-deb, git, cargo, mmdebstrap, a
  wheel, apt-ftparchive, gpg; 71 a step failed, or OUTPUT or FOLDER cannot be written; 130 Ctrl-C; 143 SIGTERM

examples
  scripts/build-deb --suite bookworm --arch arm64 && ls results/packages
  scripts/build-deb --repository results/repository --key FINGERPRINT --url https://packages.example.net"""


def _perform(
    suite: str | None,
    arch: str | None,
    output: Path,
    converter: Path | None,
    folder: Path | None,
    packages: Path | None,
    key: str | None,
    url: str | None,
    valid_days: int | None,
    replace_key: bool,
    json: bool,
    dry_run: bool,
) -> None:
    """``suite`` and ``arch`` are names of debs/release.py; None is ours, or with a repository's ``folder`` all."""
    if folder is None:
        if any(each is not None for each in (packages, key, url, valid_days, replace_key or None)):
            raise cli.Contradiction("--packages, --key, --url, --valid-days and --replace-key go with --repository")
        own_suite, own_arch = _here()
        _build(_order(suite or own_suite, arch or own_arch, output, converter), json, dry_run)
        return
    if key is None or url is None:
        raise cli.Contradiction("--repository needs --key, which signs it, and --url, where machines will find it")
    if packages is not None and (suite or arch or converter):
        raise cli.Contradiction("--packages takes what is built already: without --suite, --arch and --converter")
    asked = repository.Order(folder, key, url, repository.now(os.environ), valid_days, replace_key)
    targets = product([suite] if suite else SUITES, [arch] if arch else ARCHITECTURES)
    orders = [] if packages else [_order(*target, output, converter) for target in targets]
    _publish(asked, orders, repository.below(packages) if packages else [], json, dry_run)


def _build(order: build.Order, as_json: bool, dry_run: bool) -> None:
    if dry_run:
        _show_plan(build.plan(order), as_json)
        return
    made = build.packages(order)
    facts = [{**vars(each), "file": str(each.file)} for each in made]
    cli.show(facts, (f"{each.sha256}  {each.file}" for each in made), as_json=as_json)


def _publish(
    asked: repository.Order, orders: Sequence[build.Order], debs: Sequence[repository.Deb], as_json: bool, dry_run: bool
) -> None:
    if dry_run:
        builds = [f"{each.suite.name} {each.architecture.name}" for each in orders]
        _show_plan({"builds": builds, **repository.plan(asked, debs)}, as_json)
        return
    repository.check(asked)  # before anything long begins
    built = [repository.read(made.file) for order in orders for made in build.packages(order)]
    sources = repository.publish(asked, [*debs, *built])
    facts = [{"suite": path.parent.name, "sources": str(path)} for path in sources]
    cli.show(facts, (f"{path.parent.name}  {path}" for path in sources), as_json=as_json)


def _show_plan(plan: dict[str, object], as_json: bool) -> None:
    lines = (f"{key}: {', '.join(value) if isinstance(value, list) else value}" for key, value in plan.items())
    cli.show(plan, lines, as_json=as_json)


def _order(suite: str, architecture: str, output: Path, converter: Path | None) -> build.Order:
    return build.Order(SUITES[suite], ARCHITECTURES[architecture], output, CACHE / "packages", converter)


def parser() -> cli.Arguments:
    """The arguments of build-deb."""
    arguments = cli.Arguments(prog="build-deb", description=DESCRIPTION, epilog=EPILOG)
    arguments.set_handler(_perform)
    suite, architecture = _here()
    add = arguments.add_argument
    add(
        "--suite",
        choices=SUITES,
        help=f"Debian 12, 13 or Ubuntu 24.04 (default here: {suite}; with --repository: each)",
    )
    add("--arch", choices=ARCHITECTURES, help=f"processor (default here: {architecture}; with --repository: each)")
    add(
        "--output",
        type=Path,
        default=ROOT / "results/packages",
        metavar="DIR",
        help="where the packages go (default: results/packages)",
    )
    add("--converter", type=Path, metavar="BINARY", help="a converter that is built already (default: build it)")
    add("--json", action="store_true", help="one JSON document on standard output")
    add("--dry-run", action="store_true", help="say what would be made; fetch, build and write nothing")
    _add_repository(arguments.add_argument_group("a signed repository"))
    return arguments


def _add_repository(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--repository", dest="folder", type=Path, metavar="FOLDER", help="make a repository there, or add to it")
    add("--key", metavar="FILE|FINGERPRINT", help="the secret key that signs it")
    add("--url", type=_url, help="where machines will find it: https://, http:// or file:/")
    add("--packages", type=Path, metavar="DIR", help="take the .deb files there, folders included; build none")
    add(
        "--valid-days",
        type=cli.whole_number(1, 3650, of="days"),
        metavar="N",
        help="machines refuse it N days from now, unless it is signed anew (default: never)",
    )
    add("--replace-key", action="store_true", help="sign with another key than before")


def _url(text: str) -> str:
    parts = urlsplit(text)
    remote = parts.scheme in ("https", "http") and parts.netloc
    if not (remote or (parts.scheme == "file" and parts.path.startswith("/"))) or len(text.split()) != 1:
        raise argparse.ArgumentTypeError(f"{text}: accepted: an address such as https://packages.example.net")
    return text.rstrip("/")


def _here() -> tuple[str, str]:
    """This machine's release and processor, or the first that we know."""
    try:
        suite = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        suite = ""
    machines = {each.machine: each.name for each in ARCHITECTURES.values()}
    return suite if suite in SUITES else "trixie", machines.get(platform.machine(), "amd64")


main = cli.program(parser)

if __name__ == "__main__":
    cli.run(main, "build-deb")
