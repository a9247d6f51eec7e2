"""Is this the beginning of a disk? A check of the partition table that finds what is no image, or a part of one."""

import struct
import zlib

SECTOR = 512

_ENTRIES = struct.Struct("<B3xB3xII")  # status, type, first sector, sectors: UEFI specification 2.10, table 5.2
_PROTECTIVE = 0xEE  # the type that says: the true table is a GPT
_GPT_HEADER = struct.Struct("<8sIII4xQQ")  # signature, revision, size, checksum, own and other sector: table 5.5
_GPT_SIGNATURE = b"EFI PART"
_GPT_SIZES = range(92, SECTOR + 1)


def flaw(head: bytes, size: int) -> str | None:
    """What is wrong with a disk image of ``size`` bytes that begins with ``head`` (two sectors); None if nothing is."""
    if len(head) < 2 * SECTOR or head[510:512] != b"\x55\xaa":
        return "it has no partition table"
    entries = [_ENTRIES.unpack_from(head, 446 + 16 * index) for index in range(4)]
    used = [entry for entry in entries if entry[1] != 0]
    if not used or any(status not in (0x00, 0x80) for status, *_ in used):
        return "it has no partition table"  # the boot sector of a file system ends with the same two bytes
    if any(kind == _PROTECTIVE for _, kind, _, _ in used):
        return _gpt_flaw(head[SECTOR : 2 * SECTOR], size)
    if any(first == 0 or count == 0 for _, _, first, count in used):
        return "it has no partition table"
    return _end_flaw(max(first + count for _, _, first, count in used), size)


def _gpt_flaw(sector: bytes, size: int) -> str | None:
    signature, _, length, checksum, own, other = _GPT_HEADER.unpack_from(sector)
    if signature != _GPT_SIGNATURE or length not in _GPT_SIZES or own != 1:
        return "its partition table is no GPT, though it says so"
    if zlib.crc32(sector[:16] + bytes(4) + sector[20:length]) != checksum:
        return "its partition table is damaged"
    return _end_flaw(other + 1, size)


def _end_flaw(sectors: int, size: int) -> str | None:
    if size % SECTOR or sectors * SECTOR > size:
        return f"it is cut short: it has {size} bytes, and its partitions end at {sectors * SECTOR}"
    return None
