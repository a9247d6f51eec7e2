"""All that is looked at, in order: what cannot be read ends it, since the rest lies there."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from image import partitions
from image.check import on_any_board, on_rpi, on_x86
from image.check.findings import Disk, Finding, found
from image.firstboot.settings import Role
from image.partitions import Table
from tributary.settings.errors import CommandError, Exit, refused

BOARDS: dict[str, ModuleType] = {"x86": on_x86, "rpi": on_rpi}


def examine(image: Path, board: str, role: str) -> list[Finding]:
    """What was found in the plain disk image ``image``; raises CommandError (66, 69) if it cannot be read at all."""
    try:
        with refused(Exit.NO_INPUT, image):
            image.open("rb").close()
        table = partitions.read(image)
    except ValueError as error:
        raise CommandError(Exit.NO_INPUT, f"{image}: {error}") from error
    findings = list(_places(table, BOARDS[board], image.stat().st_size))
    if any(not finding.fine for finding in findings):
        return findings
    disk = Disk(image, table, Role(role), BOARDS[board].ARCHITECTURE)
    flaw = disk.root.flaw()
    findings.append(Finding("root: a clean ext4 file system", flaw))
    for look in () if flaw else (BOARDS[board].boot, *on_any_board.ALL):
        findings += look(disk)
    return findings


def _places(table: Table, board: ModuleType, size: int) -> Iterator[Finding]:
    """All that there is, apart; slots are of one size, and the last partition is the last on the disk: it can grow."""
    kinds = [each.kind for each in table.partitions]
    yield found(f"table: {board.TABLE}", met=table.kind == board.LABEL, otherwise=table.kind)
    yield found(f"table: {board.PARTITIONS}", met=kinds == board.KINDS, otherwise=", ".join(kinds))
    sizes = {each.size for each in table.partitions[-3:-1]}
    yield found("table: both roots are of one size", met=len(sizes) == 1, otherwise=f"{sorted(sizes)} bytes")
    by_start = sorted(table.partitions, key=lambda each: each.start)
    ends = [each.start + each.size for each in by_start]
    apart = all(end <= after.start for end, after in zip(ends, by_start[1:], strict=False))
    yield found("table: partitions lie apart", met=apart, otherwise="one lies upon another")
    yield found("table: all of them are in the image", met=max(ends) <= size, otherwise=f"it has {size} bytes")
    yield found("table: they are in order", met=by_start == list(table.partitions), otherwise="the last cannot grow")
