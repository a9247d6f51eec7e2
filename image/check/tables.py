"""Partition tables: bytes in, partitions out (UEFI specification 2.10, chapter 5; MBR as the kernel reads it)."""

import struct
import zlib
from dataclasses import dataclass
from uuid import UUID

SECTOR = 512
NEEDED = 34 * SECTOR
"""Bytes of the disk from its beginning: a GPT's header and its 128 entries."""

EFI_SYSTEM = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
BIOS_BOOT = "21686148-6449-6e6f-744e-656564454649"
LINUX_ROOT_X86_64 = "4f68bce3-e8cd-4db1-96e7-fbcaf984b709"
LINUX_DATA = "0fc63daf-8483-4772-8e79-3d69d8477de4"
PROTECTIVE, FAT32, LINUX = "ee", "0c", "83"

_MBR_ENTRY = struct.Struct("<B3xB3xII")
_GPT_HEADER = struct.Struct("<8sIIIIQQQQ16sQIII")
_GPT_ENTRY = struct.Struct("<16s16sQQQ72s")


@dataclass(frozen=True)
class Partition:
    """``kind`` is its type, two hexadecimal digits or a UUID; ``name`` its PARTUUID; sizes in bytes."""

    number: int
    kind: str
    name: str
    start: int
    size: int


@dataclass(frozen=True)
class Table:
    """``kind`` is 'gpt' or 'mbr'; partitions are those in use, by number; ``code``: the first sector has a program."""

    kind: str
    partitions: tuple[Partition, ...]
    code: bool


def read(head: bytes) -> Table:
    """The table at the beginning of a disk; raises ValueError that says what is wrong with it."""
    if len(head) < NEEDED or head[510:512] != b"\x55\xaa":
        raise ValueError("no partition table")
    code, number = any(head[:440]), struct.unpack_from("<I", head, 440)[0]
    entries = [_MBR_ENTRY.unpack_from(head, 446 + 16 * index) for index in range(4)]
    partitions = tuple(
        Partition(index, f"{kind:02x}", f"{number:08x}-{index:02x}", first * SECTOR, count * SECTOR)
        for index, (_, kind, first, count) in enumerate(entries, start=1)
        if kind
    )
    if any(each.kind == PROTECTIVE for each in partitions):
        return Table("gpt", _gpt(head), code)
    return Table("mbr", partitions, code)


def _gpt(head: bytes) -> tuple[Partition, ...]:
    signature, _, length, checksum, _, _, _, _, _, _, first, count, size, of_entries = _GPT_HEADER.unpack_from(
        head, SECTOR
    )
    header = head[SECTOR : SECTOR + length]
    if signature != b"EFI PART" or zlib.crc32(header[:16] + bytes(4) + header[20:]) != checksum:
        raise ValueError("the header of its GPT is damaged")
    start = first * SECTOR
    if size != _GPT_ENTRY.size or start + size * count > len(head):
        raise ValueError("its GPT has entries that are not where they are expected")
    if zlib.crc32(head[start : start + size * count]) != of_entries:
        raise ValueError("the entries of its GPT are damaged")
    entries = (_GPT_ENTRY.unpack_from(head, start + size * index) for index in range(count))
    return tuple(
        Partition(number, _uuid(kind), _uuid(name), begin * SECTOR, (end + 1 - begin) * SECTOR)
        for number, (kind, name, begin, end, _, _) in enumerate(entries, start=1)
        if any(kind)
    )


def _uuid(raw: bytes) -> str:
    return str(UUID(bytes_le=raw))
