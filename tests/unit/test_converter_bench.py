"""The pure parts of the converter's benchmark."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from experiments.bench.converter import present, ratios
from experiments.bench.converter.contenders import NATIVE, Contender, every_contender
from experiments.bench.converter.extent import FULL, QUICK
from experiments.bench.converter.footprint import most_held
from experiments.bench.converter.throughput import BULK, measurements, routes
from experiments.probes.conversion import Packet, conversions, packet
from experiments.testbed.build import Testbed
from experiments.testbed.cables import Ground
from experiments.testbed.native import Programs
from experiments.testbed.topology import Topology


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    testbed = Testbed("none", Topology(()), tmp_path, netem=True)
    return Ground(testbed, Programs(Path("/bin/sh"), Path("/bin/sh")))


@contextmanager
def nothing(_ground: Ground, _listen: str) -> Iterator[list[str]]:
    yield []


def seen(at: float, kind: str) -> Packet:
    """``kind``: from (c)lient or (s)erver, seen on the (c)lient's or (s)erver's side; SYN, (Y) SYN/ACK, data or ACK."""
    source, side, what = tuple(kind)
    return Packet(int(1000 * at), side == "c", source != side, what == "D", what == "S", what == "Y")


def test_delays_are_those_from_one_side_to_the_other() -> None:
    found = conversions(
        seen(*each)
        for each in (
            (0, "ccS"), (50, "csS"), (60, "ccD"), (85, "csD"), (100, "ssD"), (107, "scD"),
            (200, "ccD"), (203, "csD"), (300, "ssD"), (304, "scD"),
        )
    )  # fmt: skip
    assert (found.syn, found.first_data, found.data, found.reply) == ([50], [25], [3], [7, 4])


def test_the_time_that_the_client_takes_is_not_the_converters_own() -> None:
    # Of 100 microseconds 5 pass until the SYN/ACK, 80 until the request has come, and 15 until the SYN goes out.
    asked_for = ((0, "ccS"), (5, "scY"), (45, "ccA"), (85, "ccD"), (100, "csS"))
    found = conversions(seen(*each) for each in asked_for)
    assert (found.syn, found.own_syn) == ([100], [20])
    # One that connects at once, whatever else comes from the client.
    relayed = ((0, "ccS"), (5, "scY"), (45, "ccA"), (47, "csS"), (48, "ccD"))
    assert conversions(seen(*each) for each in relayed).own_syn == [7]


def test_a_connection_begins_with_its_syn_whatever_the_last_one_left() -> None:
    found = conversions(
        seen(*each) for each in ((0, "ccS"), (1, "csS"), (2, "ccD"), (10, "ccS"), (20, "ccD"), (21, "csS"), (25, "csD"))
    )
    assert (found.syn, found.first_data, found.data) == ([1, 11], [5], [])


def test_only_the_first_segments_of_a_request_and_an_answer_count() -> None:
    found = conversions(
        seen(*each)
        for each in (
            (0, "ccS"), (1, "csS"), (2, "ccD"), (3, "ccD"), (5, "csD"), (6, "csD"),
            (10, "ssD"), (11, "ssD"), (14, "scD"), (15, "ssD"), (16, "scD"),
        )
    )  # fmt: skip
    assert (found.first_data, found.data, found.reply) == ([3], [], [4])


@pytest.mark.parametrize(
    ("flags", "payload", "options", "expected"),
    [
        ("S", b"", [("MSS", 1460)], (False, True, False)),
        ("SA", b"", [("MSS", 1460)], (False, False, True)),
        ("A", b"", [], (False, False, False)),
        ("PA", b"x", [("NOP", None)], (True, False, False)),
    ],
)
@pytest.mark.parametrize("network", [IP(src="10.1.1.2", dst="10.1.1.1"), IPv6(src="fd00::2", dst="fd00::1")])
def test_a_frame_tells_data_and_syn(
    network: IP | IPv6,
    flags: str,
    payload: bytes,
    options: list[tuple[str, int | None]],
    expected: tuple[bool, bool, bool],
) -> None:
    frame = bytes(Ether() / network / TCP(flags=flags, options=options) / payload)
    padded = frame.ljust(60, b"\0")  # Ethernet's least frame is longer than a packet without data
    for each in (frame, padded):
        found = packet(each[:128], 5, client_side=True, outgoing=False)
        assert (found.has_data, found.is_syn, found.is_syn_ack) == expected


def test_ratios_are_those_of_each_repetition_and_of_those_that_took_part() -> None:
    reached = {
        (BULK, NATIVE): [10.0, 30.0, 20.0],
        (BULK, "squid"): [4.0, 4.0, 100.0],
        (BULK, "direct"): [40.0, 40.0, 40.0],
        ("connections", "nginx"): [5.0],
    }
    assert ratios(reached) == {"bulk_vs_squid": 2.5, "bulk_vs_direct": 0.5}


def test_a_contender_that_is_not_installed_is_left_out_by_name() -> None:
    told: list[str] = []
    here = Contender("here", 1, ("sh",), nothing)
    absent = Contender("absent", 2, ("sh", "/no/such/module.so"), nothing)
    assert present([here, absent], told.append) == [here]
    assert told == ["absent is left out: /no/such/module.so is not here (scripts/setup --dev installs it)"]


def test_who_stalls_is_left_out_of_bulk_alone() -> None:
    one = Contender("one", 1, (), nothing)
    taking_part = [one, replace(one, name="other", stalls=True)]
    expected = {True: {"one", "direct"}, False: {"one", "other", "direct"}}
    for measurement in measurements(FULL):
        assert set(routes(taking_part, measurement)) == expected[measurement.name.startswith(BULK)]


def test_every_contender_has_a_name_and_a_port_of_its_own(ground: Ground) -> None:
    names = [each.name for each in every_contender(ground)]
    assert names == ["native", "squid", "haproxy", "varnish", "nginx", "relay"]
    assert len({each.port for each in every_contender(ground)}) == len(names)


def test_squid_and_ours_are_asked_and_the_others_forward(ground: Ground) -> None:
    asked = {each.name for each in every_contender(ground) if "--via-http-proxy" in each.route}
    assert asked == {"native", "squid"}
    assert asked == {each.name for each in every_contender(ground) if "--via-connect" in each.tunnel}


def test_the_bytes_of_a_bulk_measurement_are_the_same_for_any_number_of_connections() -> None:
    for extent in (FULL, QUICK):
        for each in measurements(extent):
            if each.name.startswith(BULK):
                told = dict(zip(each.arguments[1:5:2], map(int, each.arguments[2:5:2]), strict=True))
                assert told["--connections"] * told["--bytes"] == pytest.approx(extent.bulk_bytes, rel=1e-6)


def test_more_connections_than_there_are_descriptors_for_are_not_tried() -> None:
    assert most_held(10) == 10
    assert most_held(10**9) < 10**9
