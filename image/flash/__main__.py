"""The command ``flash-pi``: write an image to a card, and prove that it arrived."""

import sys
from enum import Enum
from pathlib import Path

from image.flash import card, disks, source
from image.flash.card import Card
from image.flash.disks import Device
from image.flash.source import Contents, Image
from image.partitions import SECTOR
from image.progress import Json, Progress, Text, step
from tributary.daemons.logs import printable
from tributary.daemons.text import scaled
from tributary.settings import cli
from tributary.settings.errors import CommandError, Exit

USAGE = "flash-pi [--yes] [--force] [--dry-run | --verify-only] [--json] IMAGE DEVICE | --list [--json]"

DESCRIPTION = """\
Write an image to a card for a Raspberry Pi, or to any other disk, and read it back.

  flash-pi --list                         the disks that can be written, and why the others cannot
  flash-pi IMAGE DEVICE                   show what is there, ask, write, read back
  flash-pi --dry-run IMAGE DEVICE         check and show all, write nothing
  flash-pi --verify-only IMAGE DEVICE     is the card still what the image says?

All that is on the disk is lost, but not erased behind the image: see `what it does`."""

EPILOG = f"""\
image
  IMAGE is a disk image, .img, or packed as .img.zst, .xz, .gz or .bz2, whose program must then be installed. It is
  read and checked whole before the disk is touched. What lies beside it counts:
    IMAGE.sha256    its checksum, as sha256sum(1) writes it; without this file nothing tells a wrong download
    IMAGE.bmap      its block map (bmap-tools, format 2.0), or that of NAME.img or NAME for NAME.img.zst: only blocks
                    that hold something are written and read back, each range with a checksum of its own; the others
                    are cleared

disk
  DEVICE is a whole disk such as /dev/sdb or /dev/mmcblk0, not a partition. Refused are: the disk that the system runs
  from; a disk that is mounted, used as swap, part of LVM, encryption or RAID, or claimed by another program; one that
  is read-only, too small, or has sectors of other than {SECTOR} bytes; and one that is built in, unless --force
  is given, which sets aside that reason alone. USB disks and SD cards count as removable.

what it does
  1. Claims the disk, so that nobody mounts it meanwhile.
  2. Overwrites the first block: from now on the disk has no partitions, and does not boot.
  3. Clears what the map leaves out, and the disk's last MiB. A disk that cannot do that by itself is read there, and
     only what is not empty is overwritten.
  4. Writes all but the first block past the page cache, flushes the disk's cache, and reads it back from the medium.
  5. Writes the first block, reads it back, and has the kernel look at the new partitions.
  What lies between the image's end and the disk's last MiB has no partition any more, and stays on the medium. Erase
  disks that held secrets, before you write them or give them away (blkdiscard(8), shred(1)).
  If it ends before, by an error, Ctrl-C or a pulled card, the card does not boot, and no desktop mounts it.

  --verify-only reads alone. A card that was booted or mounted has changed, and differs.

--json
  One object a line on standard output, with the key "event": disk, image, begin, progress and end of each step (step,
  done from 0 to 1, seconds_left), then one of written, verified, checked (by --dry-run) and failed (code, error,
  notes).
  With --list: one object for each disk, with the key "refused", empty if it can be written. Needs --yes to write.

exit status
  0 done; 1 the card differs from the image; 64 wrong arguments, this disk is refused, or the answer was no; 66 the
  image is missing, damaged, or none; 69 no such disk, no card in it, it was pulled out, it is read-only, or what
  unpacks it is missing; 71 the disk gave an error; 75 the disk is in use; 77 not root; 130 Ctrl-C; 143 SIGTERM

example
  sudo scripts/flash-pi tributary-gateway-rpi.img.zst /dev/sdb"""


class Task(Enum):
    """What is to be done."""

    WRITE = "write, and read back"
    CHECK = "check and show all, write nothing"
    VERIFY = "read alone: is the card what the image says?"


def _act(
    image: Path | None, device: Path | None, list_disks: bool, task: Task, force: bool, yes: bool, json: bool
) -> None:
    if list_disks:
        if image:
            raise cli.Contradiction("--list takes neither IMAGE nor DEVICE")
        _list(json)
        return
    if image is None or device is None:
        raise cli.Contradiction("accepted: IMAGE and DEVICE, or --list")
    if json and not yes and task is Task.WRITE:
        raise cli.Contradiction("--json cannot ask: give --yes as well")
    progress = Json() if json else Text("flash-pi")
    try:
        _run(image, device, task, force, yes, progress)
    except BaseException as error:  # Ctrl-C as well: a program must read that it is over
        progress.failed(*cli.outcome(error), getattr(error, "__notes__", []))
        raise


def _list(as_json: bool) -> None:
    found = disks.every()
    for disk in found:
        refusal = disks.refusal(disk, force=False)
        if as_json:
            Json().event("disk", {**disk.facts(), "refused": str(refusal or "")}, [])
        else:
            print(*disk.lines(), printable(f"  no: {refusal}" if refusal else "  can be written"), sep="\n")
    if not found and not as_json:
        print("no disks")


def _run(path: Path, device: Path, task: Task, force: bool, yes: bool, progress: Progress) -> None:
    """Everything is checked before the disk is touched."""
    cli.need_root("reading and writing whole disks")
    disk = disks.at(device)
    with source.opened(path) as image:
        _check_fit(disk, 0, task, force)  # before the image is read, which takes seconds
        writing = task is Task.WRITE
        with card.opened(disk, writing=writing, alone=task is not Task.VERIFY) as opened:
            medium = disk.medium
            progress.event("disk", disk.facts(), disk.lines())
            with step(progress, "check", "1/4" if writing else "1/1", image.bytes) as advance:
                contents = source.check(image, advance)
            _show(image, contents, progress)
            _check_fit(disk, contents.size, task, force)
            if writing and not yes:
                _ask(disk)
            if disk.medium != medium:  # reading the image and asking take their time, and a card is changed quickly
                raise CommandError(Exit.IN_USE, f"{disk.path}: another card was put in: nothing was written")
            _carry_out(task, image, contents, opened, progress)


def _check_fit(disk: Device, needed: int, task: Task, force: bool) -> None:
    refusal = disks.too_small(disk, needed) if task is Task.VERIFY else disks.refusal(disk, force=force, needed=needed)
    if refusal:
        raise CommandError(refusal.code, f"{disk.path}: {refusal}")


def _show(image: Image, contents: Contents, progress: Progress) -> None:
    part = f", of which {scaled(contents.bytes, 'B')} are written" if contents.bytes < contents.size else ""
    checksum = "its checksum matches" if image.checksum else f"no {image.path.name}.sha256 beside it to check it by"
    about = {"path": str(image.path), "bytes": contents.size, "written_bytes": contents.bytes}
    line = printable(f"{image.path}: {scaled(contents.size, 'B')}{part}, {checksum}")
    progress.event("image", {**about, "checksum": "matches" if image.checksum else "none"}, [line])


def _ask(disk: Device) -> None:
    question = f"All that is on {disk.path} will be lost. Type {disk.name} to go on: "
    print(printable(question), end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() not in (disk.name, disk.path):
        raise CommandError(Exit.USAGE, f"{disk.path}: not confirmed by typing {disk.name}: nothing was written")


def _carry_out(task: Task, image: Image, contents: Contents, opened: Card, progress: Progress) -> None:
    path = opened.disk.path
    if task is Task.CHECK:
        progress.event("checked", {"path": path}, [f"{path} can be written; nothing was"])
    elif task is Task.VERIFY:
        _verify(contents, opened, progress)
        progress.event("verified", {"path": path}, [f"{path} is what {image.path.name} says"])
    else:
        card.write(image, contents, opened, progress)
        seen = opened.read_partitions()
        lines = [f"{path} is written and read back: eject it, and take it out"]
        if not seen:
            lines.append("the kernel still shows its old partitions: take it out and put it in again to look at it")
        progress.event("written", {"path": path, "partitions_read": seen}, lines)


def _verify(contents: Contents, opened: Card, progress: Progress) -> None:
    try:
        card.compare(contents.chunks, opened, progress, "1/1")
    except CommandError as failure:
        if failure.code is Exit.WRONG_RESULT:
            failure.add_note("a card that was booted or mounted since it was written has changed")
        raise


def parser() -> cli.Arguments:
    """The arguments of flash-pi."""
    parser = cli.Arguments(prog="flash-pi", description=DESCRIPTION, epilog=EPILOG, usage=USAGE)
    parser.set_handler(_act)
    parser.add_argument("image", nargs="?", type=Path, metavar="IMAGE", help="the image: .img or .img.zst")
    parser.add_argument("device", nargs="?", type=Path, metavar="DEVICE", help="the disk, such as /dev/sdb")
    tasks = parser.add_mutually_exclusive_group()
    tasks.add_argument("--list", dest="list_disks", action="store_true", help="show the disks")
    for option, task in (("--dry-run", Task.CHECK), ("--verify-only", Task.VERIFY)):
        tasks.add_argument(option, dest="task", action="store_const", const=task, help=task.value)
    parser.set_defaults(task=Task.WRITE)
    parser.add_argument("--force", action="store_true", help="also write to a disk that is built in")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="for programs: one JSON object a line")
    return parser


main = cli.program(parser)

if __name__ == "__main__":
    cli.run(main, "flash-pi")
