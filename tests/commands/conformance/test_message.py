"""The suite's own encoder and decoder, against bytes written down from the figures of RFC 8803."""

from ipaddress import ip_address

import pytest

from converter.conformance import message
from converter.conformance.message import Error, Garbled, Option

FIGURES = {
    "figure 13, a header alone": (message.encode(), "01012263"),
    "figure 15, Info": (message.encode(message.info()), "01022263 01010000"),
    "figure 17, Connect over IPv4": (
        message.encode(message.connect(ip_address("192.0.2.7"), 443)),
        "01062263 0a0501bb 00000000 00000000 0000ffff c0000207",
    ),
    "figure 17, Connect over IPv6": (
        message.encode(message.connect(ip_address("2001:db8::7"), 80)),
        "01062263 0a050050 20010db8 00000000 00000000 00000007",
    ),
    "figure 18, Extended Connect": (
        message.encode(message.connect(ip_address("192.0.2.7"), 80, message.pad(Option(30).encode()))),
        "01072263 0a060050 00000000 00000000 0000ffff c0000207 1e020000",
    ),
    "figure 21, Cookie": (message.encode(message.cookie(b"\xca\xfe\xba\xbe")), "01032263 16020000 cafebabe"),
    "a TLV that needs padding": (message.tlv(200, b"abc"), "c8026162 63000000"),
    "a false length": (message.tlv(200, b"", words=0), "c8000000"),
    "a false Total Length": (message.encode(words=0), "01002263"),
}


@pytest.mark.parametrize("figure", FIGURES)
def test_encoded_bytes_are_those_of_the_figure(figure: str) -> None:
    made, expected = FIGURES[figure]
    assert made.hex() == expected.replace(" ", "")


def test_a_reply_is_split_into_its_tlvs() -> None:
    reply = message.decode(bytes.fromhex("01062263 15020000 1e080400 14030000 020405b4 01010402"))
    assert reply.tlvs == {
        21: bytes.fromhex("00001e080400"),
        20: bytes.fromhex("0000020405b401010402"),
    }
    assert reply.error is None


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        ("01022263 1e010001", Error(0, b"\x01")),
        ("01022263 1e016100", Error(97, b"\x00")),
        ("01032263 1e0221fd 1d000000", Error(33, b"\xfd\x1d\0\0\0")),
    ],
)
def test_the_value_of_an_error_starts_right_behind_its_code(raw: str, error: Error) -> None:
    assert message.decode(bytes.fromhex(raw)).error == error


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        ("02012263", "version 2"),
        ("00012263", "version 0"),
        ("01012264", "magic number 2264"),
        ("01002263", "total length zero"),
        ("01022263", "4 bytes of 8"),
        ("01022263 14000000", "TLV 20 of 0 bytes"),
        ("01022263 14020000", "TLV 20 of 8 bytes where 4 are left"),
        ("01032263 14010000 14010000", "TLV 20 twice"),
        ("01022263 00010000", "reserved type 0"),
    ],
)
def test_a_garbled_reply_is_refused_and_the_reason_is_told(raw: str, what: str) -> None:
    with pytest.raises(Garbled, match=what):
        message.decode(bytes.fromhex(raw))


def test_tcp_options_are_read_with_their_one_byte_kinds_left_out() -> None:
    found = message.options(bytes.fromhex("020405b4 0402 080a0000000100000000 01 030307 00"))
    assert found == (
        Option(2, b"\x05\xb4"),
        Option(4),
        Option(8, bytes.fromhex("0000000100000000")),
        Option(3, b"\x07"),
    )


@pytest.mark.parametrize("field", ["02", "0201", "0200", "020405", "0000000004"])
def test_malformed_tcp_options_are_refused(field: str) -> None:
    with pytest.raises(Garbled):
        message.options(bytes.fromhex(field))


def test_every_prefix_of_a_reply_is_refused() -> None:
    whole = bytes.fromhex("01042263 14030000 020405b4 04020000")
    assert message.decode(whole).tlvs
    for size in range(4, len(whole)):
        with pytest.raises(Garbled):
            message.decode(whole[:size])
