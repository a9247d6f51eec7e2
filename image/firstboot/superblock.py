"""How large an ext4 file system is: bytes in, a size out (Documentation/filesystems/ext4/super.rst of the kernel)."""

_PLACE = 1024
NEEDED = _PLACE + 1024
"""Bytes of the device from its beginning."""

_MAGIC = 0xEF53
_BLOCKS_LOW, _BLOCK_SIZE, _MAGIC_AT, _INCOMPATIBLE, _BLOCKS_HIGH = 0x04, 0x18, 0x38, 0x60, 0x150
_64_BIT = 0x80


def size(data: bytes) -> int | None:
    """Bytes that the file system takes; None if ``data``, the first NEEDED bytes of a device, is not an ext4's."""
    block = data[_PLACE:NEEDED]
    if len(block) < NEEDED - _PLACE or _field(block, _MAGIC_AT, 2) != _MAGIC:
        return None
    blocks = _field(block, _BLOCKS_LOW, 4)
    if _field(block, _INCOMPATIBLE, 4) & _64_BIT:
        blocks += _field(block, _BLOCKS_HIGH, 4) << 32
    return blocks << (10 + _field(block, _BLOCK_SIZE, 4))


def _field(block: bytes, offset: int, length: int) -> int:
    return int.from_bytes(block[offset : offset + length], "little")
