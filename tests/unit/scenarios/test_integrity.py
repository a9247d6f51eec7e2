"""Verdicts on whether every byte was right; what the probe makes of wrong ones, and of what was on the wire."""

import hashlib
import random
import struct

import pytest

from experiments.probes.integrity import difference
from experiments.probes.mappings import Segment, explanation, segment
from experiments.scenarios.integrity import Integrity
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import at, but, claims_test, drawn, failed, judged
from tributary.wire.options import MpCapable, MpJoinAck, Option, Subtype, Unparsed, emit


def good(_point: Point) -> dict[str, float]:
    faults = dict.fromkeys(("failed", "wrong", "explained", "dss_not_matching_gateway"), 0)
    return {"transfers": 1000, "waits": 2, "joins": 990, **faults}


def test_each_kind_of_fault_has_its_bars() -> None:
    assert len(drawn(Integrity, good).axes[0].containers) == 3


test_claims = claims_test(
    Integrity,
    good,
    # Of another kind than the kernel's known fault; and with a delay that one is no excuse.
    at("rtt=0s", "no byte is wrong but by the kernel's known fault of joins (round trip 0s)", wrong=6, explained=5),
    at("rtt=100us", "every byte is right (round trip 100us)", wrong=1, explained=1),
    at("rtt=10ms", "every transfer ends (round trip 10ms)", failed=1),
    # Without joins it would say nothing of joins.
    at("rtt=10ms", "transfers have a second subflow (round trip 10ms)", joins=400),
    panels=1,
)


def test_without_a_delay_the_kernels_fault_is_named_and_holds() -> None:
    rule = but(good, {"rtt": "0s"}, wrong=6, explained=6)
    assert failed(Integrity, rule) == []
    assert judged(Integrity, rule)[0].measured.startswith("18 of 3000 transfers wrong, 18 of them displaced")


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
