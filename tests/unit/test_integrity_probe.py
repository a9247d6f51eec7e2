"""What the integrity probe makes of wrong bytes, and of what was on the wire meanwhile."""

import hashlib
import random
import struct

import pytest

from experiments.probes.integrity import difference
from experiments.probes.mappings import Segment, explanation, segment
from tributary.wire.options import MpCapable, MpJoinAck, Option, Subtype, Unparsed, emit

FILE = random.Random(1).randbytes(10_000)
KEY = b"client's"
FIRST_BYTE = (int.from_bytes(hashlib.sha256(KEY).digest()[-8:]) + 1) % (1 << 64)
FIRST_SUBFLOW, SECOND_SUBFLOW = (bytes([10, 1, 1, 2]), 40_000), (bytes([10, 1, 2, 2]), 50_000)
HANDSHAKE = Segment(False, FIRST_SUBFLOW, (MpCapable(1, 1, KEY, b"server's"),))
JOIN = Segment(False, SECOND_SUBFLOW, (MpJoinAck(bytes(20)),))


def mapping(first: int, length: int, long: bool = True) -> Unparsed:
    """With a DATA_ACK of 32 bits before it."""
    number = (FIRST_BYTE + first) % (1 << 64)
    sequence = struct.pack("!Q", number) if long else struct.pack("!I", number % (1 << 32))
    flags = 0x01 | 0x04 | (0x08 if long else 0)
    return Unparsed(Subtype.DSS, 0, bytes([flags]) + bytes(4) + sequence + struct.pack("!IH", 1, length))


def acknowledgement(first: int, long: bool = True) -> Unparsed:
    number = (FIRST_BYTE + first) % (1 << 64)
    data = struct.pack("!Q", number) if long else struct.pack("!I", number % (1 << 32))
    return Unparsed(Subtype.DSS, 0, bytes([0x03 if long else 0x01]) + data)


def sent(*options: Option) -> Segment:
    return Segment(True, FIRST_SUBFLOW, options)


def joined(*options: Option) -> Segment:
    return Segment(False, SECOND_SUBFLOW, options)


def test_a_whole_file_has_no_difference() -> None:
    assert difference(FILE, bytearray(FILE)) == {}


def test_displaced_bytes_are_told_by_where_they_lie_and_where_they_belong() -> None:
    got = FILE[:3_000] + FILE[3_500:4_700] + FILE[4_200:]
    assert difference(FILE, got) == {"sent": 10_000, "got": 10_000, "first": 3_000, "end": 4_200, "shift": 500}


def test_bytes_that_are_nowhere_in_the_file_have_no_shift() -> None:
    got = FILE[:3_000] + bytes(1_000) + FILE[4_000:]
    assert difference(FILE, got) == {"sent": 10_000, "got": 10_000, "first": 3_000, "end": 4_000}


def test_a_file_that_is_too_short_is_wrong_though_every_byte_is_right() -> None:
    assert difference(FILE, FILE[:-1]) == {"sent": 10_000, "got": 9_999}


@pytest.mark.parametrize("long", [True, False])
def test_a_mapping_that_was_let_begin_at_the_acknowledged_byte_explains_its_shift(long: bool) -> None:
    captured = [HANDSHAKE, JOIN, sent(acknowledgement(2_500, long)), joined(mapping(3_000, 1_700, long))]
    wrong = {"first": 3_000, "end": 4_200, "shift": 500}
    assert explanation(captured, wrong) == {"mapping": [3_000, 1_700], "acknowledged": 2_500}


@pytest.mark.parametrize(
    "captured",
    [
        [sent(acknowledgement(2_400)), joined(mapping(3_000, 1_700))],  # never acknowledged
        [sent(acknowledgement(2_500)), joined(mapping(3_000, 1_600))],  # the mapping ends before the bytes do
        [sent(acknowledgement(2_500)), Segment(False, FIRST_SUBFLOW, (mapping(3_000, 1_700),))],  # it did not join
    ],
)
def test_nothing_else_explains_it(captured: list[Segment]) -> None:
    assert explanation([HANDSHAKE, JOIN, *captured], {"first": 3_000, "end": 4_200, "shift": 500}) == {}


def test_without_the_clients_key_nothing_is_explained() -> None:
    captured = [JOIN, sent(acknowledgement(2_500)), joined(mapping(3_000, 1_700))]
    assert explanation(captured, {"first": 3_000, "end": 4_200, "shift": 500}) == {}


def test_bytes_without_a_shift_are_not_explained() -> None:
    assert explanation([HANDSHAKE, JOIN], {"first": 3_000, "end": 4_200}) == {}


def test_a_captured_packet_is_read_with_its_direction_and_its_client() -> None:
    option = emit(acknowledgement(7)) + b"\x00"
    tcp = struct.pack("!HHIIBBHHH", 9_000, 50_000, 1, 1, (20 + len(option)) // 4 << 4, 0x10, 0, 0, 0) + option
    network = struct.pack("!BBHHHBBH", 0x45, 0, 40, 0, 0, 64, 6, 0) + bytes([10, 1, 1, 1, 10, 1, 2, 2])
    assert segment(network + tcp, 9_000) == Segment(True, SECOND_SUBFLOW, (acknowledgement(7),))
