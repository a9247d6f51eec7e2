import pytest

from tributary.wire.options import (
    AddAddr,
    MpCapable,
    MpFastclose,
    MpJoinAck,
    MpJoinSyn,
    MpJoinSynAck,
    MpPrio,
    Option,
    ParseError,
    RemoveAddr,
    Subtype,
    Unparsed,
    emit,
    parse,
)

octets = bytes.fromhex
KEYS = CLIENT_KEY, LISTENER_KEY = octets("7df87092ca0d5735"), octets("a46c287fdfa5ea19")
HMAC_B, HMAC_A = "fcc5d45b2e85a867", "5aa57fa79641070cdfc99b3ab1570644d491b19e"


def dss(data: str) -> Unparsed:
    return Unparsed(Subtype.DSS, 0, octets(data))


# Whole option blocks of one session, captured on Linux 6.18 between two network namespaces.
CAPTURED: list[tuple[str, str, *tuple[Option, ...]]] = [
    ("SYN", "020405b40402080a323b3e6c000000000103030a 1e040101", MpCapable(1, 1)),
    ("SYN/ACK", "020405b40402080a62d43e89323b3e6c0103030a 1e0c0101a46c287fdfa5ea19", MpCapable(1, 1, LISTENER_KEY)),
    ("third ACK", "0101080a323b3e6c62d43e89 1e1401017df87092ca0d5735a46c287fdfa5ea19", MpCapable(1, 1, *KEYS)),
    (
        "first data",
        "0101080a323b3e6c62d43e89 1e1601017df87092ca0d5735a46c287fdfa5ea190004 0101",
        MpCapable(1, 1, *KEYS, data_length=4),
    ),
    ("data ACK", "0101080a62d43e89323b3e6c 1e0c2003a06b6277c6dcf0f3", dss("03a06b6277c6dcf0f3")),
    (
        "address",
        "0101080a62d43e89323b3e6c 1e1030010a000201459f61c9f2757d92",
        AddAddr(False, 1, "10.0.2.1", None, octets("459f61c9f2757d92")),
    ),
    ("address echo", "0101080a323b3e6c62d43e89 1e0831010a000201", AddAddr(True, 1, "10.0.2.1")),
    (
        "join SYN",
        "020405b40402080a811cbbbd000000000103030a 1e0c10038f3778f8149589a0",
        MpJoinSyn(False, 3, 0x8F3778F8, octets("149589a0")),
    ),
    (
        "join SYN/ACK",
        "020405b40402080a89163586811cbbbd0103030a 1e101001fcc5d45b2e85a867feead300",
        MpJoinSynAck(False, 1, octets(HMAC_B), octets("feead300")),
    ),
    (
        "join third ACK",
        "0101080a811cbbbd89163586 1e1810005aa57fa79641070cdfc99b3ab1570644d491b19e",
        MpJoinAck(octets(HMAC_A)),
    ),
    (
        "priority",
        "0101080a811cbbbe89163586 1e0c20035f9e785eb3c448b3 1e0351 01",
        dss("035f9e785eb3c448b3"),
        MpPrio(True),
    ),
    (
        "remove address",
        "0101080a323b3e6d62d43e8a 1e0c20035f9e785eb3c448b3 1e044003",
        dss("035f9e785eb3c448b3"),
        RemoveAddr((3,)),
    ),
    ("plain", "0101080a811cbee5891638ae"),
    (
        "fast close",
        "0101080a323b42cf62d43e8a 1e0c7000a46c287fdfa5ea19 1e048000",
        MpFastclose(LISTENER_KEY),
        Unparsed(Subtype.MP_TCPRST, 0, b"\x00"),
    ),
]

_UNIQUE_LOCAL = ":".join(["fdfd"] * 8)

# One of each form, by the figures of RFC 8684 section 3.
TABLE: list[tuple[str, Option]] = [
    ("1e 04 01 81", MpCapable(1, 0x81)),
    ("1e 0c 01 01 0102030405060708", MpCapable(1, 1, bytes(range(1, 9)))),
    ("1e 14 01 01 0102030405060708 090a0b0c0d0e0f10", MpCapable(1, 1, bytes(range(1, 9)), bytes(range(9, 17)))),
    (
        "1e 16 01 01 0102030405060708 090a0b0c0d0e0f10 0400",
        MpCapable(1, 1, bytes(range(1, 9)), bytes(range(9, 17)), data_length=1024),
    ),
    (
        "1e 18 01 81 0102030405060708 090a0b0c0d0e0f10 0000 ffff",
        MpCapable(1, 0x81, bytes(range(1, 9)), bytes(range(9, 17)), data_length=0, checksum=0xFFFF),
    ),
    ("1e 0c 00 01 0000000000000000", MpCapable(0, 1, bytes(8))),
    ("1e 0c 11 07 00000001 aabbccdd", MpJoinSyn(True, 7, 1, octets("aabbccdd"))),
    ("1e 10 10 00 0102030405060708 aabbccdd", MpJoinSynAck(False, 0, bytes(range(1, 9)), octets("aabbccdd"))),
    ("1e 18 10 00" + "5a" * 20, MpJoinAck(b"\x5a" * 20)),
    ("1e 08 20 01 00000001", dss("0100000001")),
    ("1e 1c 30 02" + "fd" * 16 + "00" * 8, AddAddr(False, 2, _UNIQUE_LOCAL, None, bytes(8))),
    ("1e 1e 30 02" + "fd" * 16 + "0c38" + "00" * 8, AddAddr(False, 2, _UNIQUE_LOCAL, 3128, bytes(8))),
    ("1e 10 30 ff 0a000201 0102030405060708", AddAddr(False, 255, "10.0.2.1", None, bytes(range(1, 9)))),
    ("1e 12 30 02 0a000201 0000 0102030405060708", AddAddr(False, 2, "10.0.2.1", 0, bytes(range(1, 9)))),
    ("1e 08 31 02 0a000201", AddAddr(True, 2, "10.0.2.1")),
    ("1e 0a 31 02 0a000201 0c38", AddAddr(True, 2, "10.0.2.1", 3128)),
    ("1e 14 31 02" + "fd" * 16, AddAddr(True, 2, _UNIQUE_LOCAL)),
    ("1e 16 31 02" + "00" * 10 + "ffff 0a000201 0c38", AddAddr(True, 2, "::ffff:10.0.2.1", 3128)),
    ("1e 04 40 00", RemoveAddr((0,))),
    ("1e 05 40 02 03", RemoveAddr((2, 3))),
    ("1e 03 50", MpPrio(False)),
    ("1e 03 51", MpPrio(True)),
    ("1e 0c 60 00 0000000000000009", Unparsed(Subtype.MP_FAIL, 0, octets("000000000000000009"))),
    ("1e 0c 70 00 0102030405060708", MpFastclose(bytes(range(1, 9)))),
    ("1e 04 81 05", Unparsed(Subtype.MP_TCPRST, 1, b"\x05")),
    ("1e 03 9f", Unparsed(9, 15, b"")),
    ("1e 05 f0 01 02", Unparsed(15, 0, b"\x01\x02")),
]


WHAT_LINUX_SENDS = pytest.mark.parametrize(
    ("block", "options"), [pytest.param(block, options, id=name) for name, block, *options in CAPTURED]
)


@WHAT_LINUX_SENDS
def test_what_linux_sends_is_read(block: str, options: list[Option]) -> None:
    assert list(parse(octets(block))) == options
    assert all(emit(option).hex() in block.replace(" ", "") for option in options)


@pytest.mark.parametrize(("wire", "option"), TABLE)
def test_each_form_is_read_alone_and_among_others_and_written_and_malformed_when_cut(wire: str, option: Option) -> None:
    data, timestamps = octets(wire), octets("080a0102030405060708")
    assert parse(data) == (option,)
    assert parse(b"\x01\x01" + timestamps + data + b"\x01\x00" + b"\x1e") == (option,)
    assert emit(option) == data
    for length in range(1, len(data)):
        with pytest.raises(ParseError):
            parse(data[:length])


@pytest.mark.parametrize("wire", [wire for wire, _ in TABLE])
def test_an_option_with_any_other_length_is_a_value_or_malformed(wire: str) -> None:
    data = bytearray(octets(wire)) + bytes(40)
    for length in range(256):
        data[1] = length
        try:
            options = parse(bytes(data[: max(length, 2)]))
        except ParseError:
            continue
        assert all(parse(emit(option)) == (option,) for option in options)


@pytest.mark.parametrize(
    "wire",
    [
        *("1e", "1e00", "1e01", "1e0201", "1e0401", "0800", "0801", "080a00", "0101 03"),
        *("1e05010100", "1e041000", "1e0450ff", "1e0340", "1e087000" + "00" * 4),
        *("1e0d0101" + "00" * 9, "1e150101" + "00" * 17, "1e190101" + "00" * 21, "1e0d1000" + "00" * 9),
    ],
)
def test_a_wrong_length_is_malformed(wire: str) -> None:
    with pytest.raises(ParseError):
        parse(octets(wire))


ADD_ADDR_LENGTHS = {0: {16, 18, 28, 30}, 1: {8, 10, 20, 22}}


@pytest.mark.parametrize("echo", [0, 1])
def test_an_announced_address_has_one_of_four_lengths(echo: int) -> None:
    taken = set()
    for length in range(3, 41):
        try:
            parse(bytes([30, length, 0x30 | echo]) + bytes(length - 3))
            taken.add(length)
        except ParseError:
            continue
    assert taken == ADD_ADDR_LENGTHS[echo]


def test_nothing_after_the_end_of_the_list_is_read() -> None:
    assert parse(octets("00 1e040101 08")) == ()
