"""Device trees: bytes in, the model and what it is compatible with out (Devicetree Specification 0.4, chapter 5)."""

import struct
from dataclasses import dataclass

_MAGIC = 0xD00DFEED
_HEADER = struct.Struct(">IIIII")  # magic, size, offsets of structure, strings, reserved memory
_BEGIN_NODE, _END_NODE, _PROPERTY, _NOTHING = 1, 2, 3, 4


@dataclass(frozen=True)
class Root:
    """Two properties of the root node, which every board's tree has."""

    model: str
    compatible: tuple[str, ...]


def root(data: bytes) -> Root:
    """Read a flattened device tree; raises ValueError if it is none, or cut short."""
    try:
        magic, size, structure, strings, _ = _HEADER.unpack_from(data)
        if magic != _MAGIC or size > len(data):
            raise ValueError("no device tree, or one that is cut short")
        found = _properties(data, structure, strings)
        return Root(_texts(found["model"])[0], _texts(found["compatible"]))
    except (struct.error, KeyError, IndexError) as error:
        raise ValueError("a device tree without model, or damaged") from error


def _properties(data: bytes, place: int, strings: int) -> dict[str, bytes]:
    """Those of the root node, which stand before its first child."""
    found: dict[str, bytes] = {}
    nodes = 0
    while True:
        (token,) = struct.unpack_from(">I", data, place)
        place += 4
        if token == _BEGIN_NODE:
            nodes += 1
            if nodes > 1:
                return found
            place = _aligned(data.index(b"\0", place) + 1)
        elif token == _PROPERTY:
            length, name = struct.unpack_from(">II", data, place)
            found[data[strings + name : data.index(b"\0", strings + name)].decode()] = data[
                place + 8 : place + 8 + length
            ]
            place = _aligned(place + 8 + length)
        elif token != _NOTHING:
            return found


def _aligned(place: int) -> int:
    return -(-place // 4) * 4


def _texts(value: bytes) -> tuple[str, ...]:
    return tuple(part.decode() for part in value.rstrip(b"\0").split(b"\0"))
