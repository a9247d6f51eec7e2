"""Disks and images in words, for a person who must not take the wrong one."""

from typing import Any

from image.flash import judge
from image.flash.bmap import Contents
from image.flash.disk import Disk, Machine, device_path
from image.flash.image_file import Image
from image.flash.sizes import sized


def disk_facts(disk: Disk) -> dict[str, Any]:
    """A disk for a program."""
    partitions = [
        {"path": device_path(part.name), "bytes": part.size, "label": part.label, "filesystem": part.filesystem}
        for part in disk.partitions
    ]
    return {
        "path": disk.path,
        "vendor": disk.vendor,
        "model": disk.model,
        "bytes": disk.size,
        "bus": disk.bus,
        "removable": disk.removable,
        "partitions": partitions,
    }


def disk_lines(disk: Disk) -> list[str]:
    """A disk for a person: a line for it and one for each partition, as wide as the longest needs."""
    title = disk.title or "unknown make"
    lines = [f"{disk.path}: {title}, {sized(disk.size)}, bus {disk.bus}{', removable' if disk.removable else ''}"]
    for part in disk.partitions:
        label = f'"{part.label}"' if part.label else "no label"
        lines.append(
            f"  {device_path(part.name)}: {sized(part.size)}, {part.filesystem or 'unknown contents'}, {label}"
        )
    return [printable(line) for line in lines]


def image_facts(image: Image, contents: Contents) -> dict[str, Any]:
    """An image for a program."""
    return {
        "path": str(image.path),
        "bytes": contents.size,
        "written_bytes": contents.mapped,
        "checksum": "matches" if image.checksum else "none",
    }


def image_lines(image: Image, contents: Contents) -> list[str]:
    """An image for a person."""
    part = f", of which {sized(contents.mapped)} are written" if contents.mapped < contents.size else ""
    checksum = "its checksum matches" if image.checksum else f"no {image.path.name}.sha256 beside it to check it by"
    return [printable(f"{image.path}: {sized(contents.size)}{part}, {checksum}")]


def listed(machine: Machine) -> list[tuple[Disk, str]]:
    """The disks that a person can touch, each with what speaks against writing it; those without come first."""
    touched = [disk for disk in machine.disks if disk.bus != "virtual"]
    refusals = [judge.refusal(machine, disk, force=False) for disk in touched]
    judged = [(disk, no.reason if no else "") for disk, no in zip(touched, refusals, strict=True)]
    return sorted(judged, key=lambda pair: (pair[1] != "", pair[0].name))


def list_lines(machine: Machine) -> list[str]:
    """``listed`` for a person."""
    lines = []
    for disk, reason in listed(machine):
        lines += [*disk_lines(disk), printable(f"  no: {reason}") if reason else "  can be written"]
    return lines or ["no disks"]


def printable(text: str) -> str:
    """``text`` without control characters: a label may hold what a terminal would obey."""
    return "".join(character if character.isprintable() else "?" for character in text)
