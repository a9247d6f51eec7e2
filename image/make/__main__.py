"""The command ``build-image``: an image of the appliance, from Debian's packages and this checkout."""

from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from image.make import command
from image.make.boards import BOARDS, SUITE, Role
from image.progress import Json, Text, clock
from tributary.daemons.text import scaled
from tributary.paths import CACHE, ROOT
from tributary.settings.cli import Arguments, Contradiction, need_root, program, run, show
from tributary.settings.errors import CommandError, Exit

DESCRIPTION = f"""\
Make an image of Debian {SUITE} with Tributary, to be written to a card or a disk by scripts/flash-pi.

  x86   amd64, boots by BIOS and by UEFI (Secure Boot must be off)
  rpi   arm64, for Raspberry Pi 3, 4, 400, CM4, Zero 2 W, and, as far as Debian's kernel goes, 5

  gateway   ends Multipath TCP for clients: Squid, the native converter, the throttler
  router    a home router with two or more links

The same commit gives the same files, and with --locked the same versions of Debian's packages."""

EPILOG = """\
stages
  packages  Tributary's own, as by scripts/build-deb
  base      Debian's packages, by mmdebstrap; for arm64 on amd64, and the other way round, QEMU runs what is in them
  root      both together, settings, kernel and boot loader; without a network
  disk      partitions and file systems in one file; nothing is mounted, no device is used
  files     packed by zstd, after scripts/check-image has found the disk right

  What came of each is kept in the cache by all that it was made from: a build that was ended goes on there, and one
  with little changed takes little time. The folder logs in it has what the programs said.

lock
  image/make/debian.lock has the version of every package of Debian that each image was tested with. A build takes the
  newest, and lists at its end what differs; with --locked it ends with exit code 1 instead. --update-lock writes down
  what Debian has today for this image: look at the change, build, test, commit it.

result, in DIR
  tributary-ROLE-BOARD-VERSION.img.zst   the image, packed
  ....img.zst.sha256                     its checksum, for sha256sum --check and scripts/flash-pi
  ....img.bmap                           its block map (bmap-tools): only blocks that hold something are written
  ....manifest                           packages with their versions, and all files
  ....os_list.json                       for the Raspberry Pi: what Raspberry Pi Imager has to know, for its --repo
  ....raucb                              with --key: what tributary-upgrade takes on a box that runs already

upgrades
  --certificate FILE puts certificates (X.509, PEM) into the image: it takes upgrades that one of them signed, and no
  others. Without it, it takes none. --key is the key of the certificate in FILE: a PEM file, or a PKCS#11 URL. It is
  read by rauc alone, and goes nowhere. docs/upgrade-image.md says how to make them.

  --url BASE is the address of the folder that these files will be published in, such as https://images.example.net/pi:
  Imager downloads the image from there. Without it, the list names the files in DIR, for Imager on this machine.

--json
  One object a line, with the key "event": begin (step, place, seconds_left), progress (done, seconds_left, doing),
  end (cached, seconds), note (text), result (image, files). With --dry-run one object: image, stages, files.

environment
  TRIBUTARY_CACHE   where results of stages are kept (/var/cache/tributary); some 4 GB for each kind of image

exit status
  0 done; 1 the image is not right or, with --locked, packages differ; 64 wrong arguments; 66 there is no lock yet; 69 a
  program or a feature of the kernel is missing; 71 a step failed: its last lines are shown; 77 not root; 130 Ctrl-C;
  143 SIGTERM. A build that ends early leaves no mounts and no half files.

example
  sudo scripts/build-image --board rpi --role router && ls results/images"""


def _build(
    board: str,
    role: str,
    output: Path,
    locked: bool,
    url: str | None,
    certificate: Path | None,
    key: str | None,
    update_lock: bool,
    dry_run: bool,
    json: bool,
) -> None:
    if key and not certificate:
        raise Contradiction("--key goes with --certificate, its certificate, which the image has to trust")
    # The whole work, which --help does without.
    from image.make import order

    asked = order.Order(BOARDS[board], Role(role), output, CACHE / "image", url, certificate, key, locked)
    if dry_run:
        outlook = order.outlook(order.Making.of(asked))
        show(outlook, _lines(outlook), as_json=json, indent=None)
        return
    need_root("build-image")
    command.require(bundle=key is not None)
    progress = Json() if json else Text("build-image")
    if update_lock:
        asked.cache.mkdir(parents=True, exist_ok=True)
        order.update_lock(asked, progress)
        progress.event("result", {"lock": str(asked.debian.lock_path)}, [str(asked.debian.lock_path)])
        return
    making = order.Making.of(asked)
    files = order.build(making, progress)
    facts = {"image": making.name, "files": [str(path) for path in files]}
    progress.event("result", facts, [f"{scaled(path.stat().st_size, 'B'):>8}  {path}" for path in files])


def parser() -> Arguments:
    """The arguments of build-image."""
    parser = Arguments(prog="build-image", description=DESCRIPTION, epilog=EPILOG)
    parser.set_handler(_build)
    parser.add_argument("--board", choices=sorted(BOARDS), required=True, help="what it boots on")
    parser.add_argument("--role", choices=list(Role), default=Role.GATEWAY, help="what it is (default: gateway)")
    output = ROOT / "results/images"
    parser.add_argument("--output", type=_folder, default=output, metavar="DIR", help="default: results/images")
    parser.add_argument("--locked", action="store_true", help="only with the versions of Debian's packages in the lock")
    parser.add_argument("--url", type=_url, metavar="BASE", help="where DIR will be published, for Raspberry Pi Imager")
    parser.add_argument("--certificate", type=Path, metavar="FILE", help="whose upgrades it takes (default: nobody's)")
    parser.add_argument("--key", metavar="KEY", help="the certificate's key: make a bundle as well")
    parser.add_argument("--update-lock", action="store_true", help="write the lock anew, and build nothing")
    parser.add_argument("--dry-run", action="store_true", help="say what would be made; make nothing")
    parser.add_argument("--json", action="store_true", help="for programs")
    return parser


def _folder(text: str) -> Path:
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise CommandError(Exit.USAGE, f"--output {text}: accepted: a folder")
    return path


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("https", "http") or not parts.netloc or parts.query or parts.fragment:
        raise ArgumentTypeError(f"{text}: accepted: the address of a folder, such as https://images.example.net/pi")
    return text


def _lines(outlook: Mapping[str, Any]) -> Iterator[str]:
    for stage in outlook["stages"]:
        takes = "from the cache" if stage["cached"] else f"about {clock(stage['seconds'])}"
        yield f"{stage['stage']:8}  {takes}"
    yield from outlook["files"]


main = program(parser)

if __name__ == "__main__":
    run(main, "build-image")
