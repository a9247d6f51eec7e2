"""The command ``check-image``: is an image what its board needs?"""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from image.check.examination import BOARDS, examine
from image.firstboot.settings import Role
from image.flash import source
from tributary.settings.cli import Arguments, Contradiction, program, run, show
from tributary.settings.errors import CommandError, Exit

DESCRIPTION = """\
Look at an image that scripts/build-image made: is it whole, and is in it what its board and its role need?

Partitions; GRUB for BIOS and UEFI, or the Raspberry Pi's firmware, config.txt, cmdline.txt and the device tree of every
model; kernel and initramfs; the settings on the boot partition; file system table, role, services; and that nothing is
there that each box must have for itself: no keys, no passwords, no number.

The image is read as a file: nothing is mounted, nothing started, and root is not needed."""

EPILOG = """\
IMAGE is .img or .img.zst; its checksum and its block map are checked, if they lie beside it. Board and role are taken
from a name such as tributary-gateway-rpi-0.1.0.img.zst.

exit status
  0 all is right; 1 something is not; 64 wrong arguments; 66 the image cannot be read, or is damaged; 69 a program of
  mtools, e2fsprogs, fdisk, device-tree-compiler or zstd is missing; 71 there is no room to unpack it; 130 Ctrl-C;
  143 SIGTERM"""

_NAME = re.compile(rf"tributary-({'|'.join(Role)})-({'|'.join(BOARDS)})-")


def parser() -> Arguments:
    """The arguments of check-image."""
    parser = Arguments(prog="check-image", description=DESCRIPTION, epilog=EPILOG)
    parser.set_handler(_check)
    parser.add_argument("image", type=Path, metavar="IMAGE", help="the image")
    parser.add_argument("--board", choices=sorted(BOARDS), help="what it is for")
    parser.add_argument("--role", choices=list(Role), help="what it is")
    parser.add_argument("--json", action="store_true", help="a JSON array of what was looked at: what, wrong")
    return parser


def _check(image: Path, board: str | None, role: str | None, json: bool) -> int:
    """What ``board`` and ``role`` do not say, the image's name has to."""
    named = _NAME.match(image.name)
    role, board = role or (named and named[1]), board or (named and named[2])
    if not (role and board):
        raise Contradiction(f"{image.name} tells neither: give --board and --role")
    with source.opened(image) as packed:
        source.check(packed, lambda _: None)
    with _plain(image) as plain:
        findings = examine(plain, board, role)
    facts = [{"what": each.what, "wrong": each.wrong} for each in findings]
    show(facts, (f"{'fine ' if each.fine else 'WRONG'}  {each}" for each in findings), as_json=json, indent=1)
    return 0 if all(finding.fine for finding in findings) else Exit.WRONG_RESULT


@contextmanager
def _plain(path: Path) -> Iterator[Path]:
    """The image unpacked, with holes where it has zeros."""
    if path.suffix != ".zst":
        yield path
        return
    with TemporaryDirectory(prefix="check-image-") as folder:
        plain = Path(folder) / path.stem
        command = ["zstd", "--decompress", "--quiet", "--sparse", "-o", str(plain), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CommandError(Exit.SYSTEM, f"{path}: cannot be unpacked into {folder}: {done.stderr.strip()}")
        yield plain


main = program(parser)

if __name__ == "__main__":
    run(main, "check-image")
