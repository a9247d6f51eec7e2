"""One order from beginning to end: everything is checked before the disk is touched."""

import os
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from image.flash import describe, image_file, judge, steps, sysfs, target
from image.flash.bmap import Contents
from image.flash.disk import Disk, Machine
from image.flash.image_file import Image
from image.flash.report import Report
from image.flash.sysfs import Roots
from image.flash.target import Target
from tributary.settings.errors import CommandError, Exit


class Task(Enum):
    """What is to be done."""

    WRITE = "write, and read back"
    CHECK = "check and show all, write nothing"
    VERIFY = "read alone: is the card what the image says?"


@dataclass(frozen=True)
class Order:
    """What the person asked for; ``force`` is for a disk that is built in."""

    image: Path
    device: Path
    task: Task
    force: bool
    ask: bool


def run(order: Order, report: Report, roots: Roots) -> None:
    """Do it; raises CommandError."""
    if os.geteuid() != 0:
        raise CommandError(Exit.NO_PERMISSION, "reading and writing whole disks needs root: use sudo")
    machine = sysfs.read(roots)
    disk = _disk(order, machine)
    with image_file.opened(order.image) as image:
        _check_fit(order, machine, disk, 0)  # before the image is read, which takes seconds
        writing = order.task is Task.WRITE
        with target.opened(disk, roots, writing=writing, alone=order.task is not Task.VERIFY) as opened:
            report.facts("disk", describe.disk_facts(disk), describe.disk_lines(disk))
            contents = _surveyed(image, report)
            _check_fit(order, machine, disk, contents.size)
            _carry_out(order, image, contents, opened, report)


def _disk(order: Order, machine: Machine) -> Disk:
    found = judge.whole_disk(machine, target.device_number(order.device))
    if isinstance(found, judge.Refusal):
        raise CommandError(found.code, f"{order.device}: {found.reason}")
    return found


def _check_fit(order: Order, machine: Machine, disk: Disk, needed: int) -> None:
    if order.task is Task.VERIFY:
        refusal = judge.too_small(disk, needed)
    else:
        refusal = judge.refusal(machine, disk, force=order.force, needed=needed)
    if refusal:
        raise CommandError(refusal.code, f"{disk.path}: {refusal.reason}")


def _surveyed(image: Image, report: Report) -> Contents:
    with report.step("check", image_file.reading(image)) as advance:
        contents = image_file.survey(image, advance)
    report.facts("image", describe.image_facts(image, contents), describe.image_lines(image, contents))
    return contents


def _carry_out(order: Order, image: Image, contents: Contents, opened: Target, report: Report) -> None:
    path = opened.disk.path
    if order.task is Task.CHECK:
        report.facts("checked", {"path": path}, [f"{path} can be written; nothing was"])
    elif order.task is Task.VERIFY:
        _verify(image, contents, opened, report)
        report.facts("verified", {"path": path}, [f"{path} is what {image.path.name} says"])
    else:
        if order.ask:
            _ask(opened.disk)
        _check_same(opened)
        steps.flash(image, contents, opened, report)
        _written(opened, report)


def _verify(image: Image, contents: Contents, opened: Target, report: Report) -> None:
    try:
        steps.compare(image, contents, opened, report)
    except CommandError as failure:
        if failure.code is Exit.WRONG_RESULT:
            failure.add_note("a card that was booted or mounted since it was written has changed")
        raise


def _ask(disk: Disk) -> None:
    question = f"All that is on {disk.path} will be lost. Type {disk.name} to go on: "
    print(describe.printable(question), end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() not in (disk.name, disk.path):
        raise CommandError(Exit.USAGE, f"{disk.path}: not confirmed by typing {disk.name}: nothing was written")


def _check_same(opened: Target) -> None:
    """Reading the image and asking take their time, and a card is changed quickly."""
    old = opened.disk
    for disk in sysfs.read(opened.roots).disks:
        if (disk.number, disk.sequence, disk.size) == (old.number, old.sequence, old.size):
            return
    raise CommandError(Exit.IN_USE, f"{old.path}: another card was put in: nothing was written: start again")


def _written(opened: Target, report: Report) -> None:
    path, seen = opened.disk.path, opened.read_partitions()
    lines = [f"{path} is written and read back: eject it, and take it out"]
    if not seen:
        lines.append("the kernel still shows its old partitions: take it out and put it in again to look at it")
    report.facts("written", {"path": path, "partitions_read": seen}, lines)
