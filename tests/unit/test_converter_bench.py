"""The pure parts of the converter's benchmark."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from experiments.bench.__main__ import main
from experiments.bench.converter import PARTS, present
from experiments.bench.converter.contenders import NATIVE, Contender, every_contender
from experiments.bench.converter.extent import FULL, QUICK
from experiments.bench.converter.footprint import most_held
from experiments.bench.converter.ratios import ratios
from experiments.bench.converter.steering import mask
from experiments.bench.converter.throughput import (
    BULK,
    CONNECTIONS,
    DIRECT_NAME,
    KINDS,
    REQUESTS,
    UPLOAD,
    Course,
    measurements,
)
from experiments.probes.conversion import Packet, conversions, packet
from experiments.testbed.build import Testbed
from experiments.testbed.cables import Cabling
from experiments.testbed.native import Programs
from experiments.testbed.topology import Topology
from tributary.settings.failure import Exit, Failure


@pytest.fixture
def cabling(tmp_path: Path) -> Cabling:
    testbed = Testbed("none", Topology(()), tmp_path, netem=True)
    return Cabling(testbed, Programs(Path("/bin/sh"), Path("/bin/sh")))


@contextmanager
def nothing(_ground: Cabling, _listen: str) -> Iterator[list[str]]:
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
        (CONNECTIONS, "nginx"): [5.0],
    }
    assert ratios(reached) == {"bulk_vs_squid": 2.5, "bulk_vs_direct": 0.5}


def test_a_peer_that_stands_still_now_and_then_is_held_against_at_its_best() -> None:
    reached = {(BULK, NATIVE): [10.0, 30.0, 20.0], (BULK, "haproxy"): [1.0, 40.0, 2.0]}
    assert ratios(reached) == {"bulk_vs_haproxy": 10, "bulk_vs_haproxy_best": 0.5}


def test_the_spread_of_uploads_is_that_of_ours_from_the_slowest_to_the_fastest() -> None:
    reached = {(UPLOAD, NATIVE): [4.0, 8.0, 2.0], (UPLOAD, "relay"): [4.0, 4.0, 4.0]}
    assert ratios(reached) == {"upload_vs_relay": 1, "upload_spread": 0.25}


def reached_by(*contenders: str) -> dict[tuple[str, str], list[float]]:
    return {(each.name, name): [2.0] for each in measurements(FULL) for name in (NATIVE, *contenders)}


def test_the_ratios_have_what_their_readers_rely_on() -> None:
    of_downloads = {f"bulk_vs_{peer}" for peer in ("squid", "haproxy", "varnish", "relay", "direct")}
    of_uploads = {"upload_vs_haproxy", "upload_vs_varnish", "upload_vs_relay", "upload_vs_direct", "upload_spread"}
    of_connections = {f"connections_vs_{peer}" for peer in ("haproxy", "nginx", "squid")}
    of_requests = {f"requests_vs_{peer}" for peer in ("haproxy", "nginx", "squid", "varnish")}
    best = {"bulk_vs_haproxy_best", "bulk_vs_varnish_best"}
    assert set(ratios(reached_by(*PARTS.peers))) == of_downloads | best | of_uploads | of_connections | of_requests


def test_there_is_no_ratio_to_who_is_not_here() -> None:
    found = ratios(reached_by("squid", "haproxy", "relay", DIRECT_NAME))
    assert found
    assert not [name for name in found if "nginx" in name or "varnish" in name]


def test_a_contender_that_is_not_installed_is_left_out_by_name() -> None:
    told: list[str] = []
    here = Contender("here", 1, ("sh",), nothing)
    absent = Contender("absent", 2, ("sh", "/no/such/module.so"), nothing)
    assert present([here, absent], told.append) == [here]
    assert told == ["absent is left out: /no/such/module.so is not here (scripts/setup --dev installs it)"]


def course(cabling: Cabling, *taking_part: Contender, direct: bool = True) -> Course:
    return Course(cabling, taking_part, direct, (0, 1), print)


def test_who_stalls_is_left_out_of_bytes_alone(cabling: Cabling) -> None:
    one = Contender("one", 1, (), nothing)
    these = course(cabling, one, replace(one, name="other", stalls=True))
    able = {each.kind: set(these.routes(each)) for each in measurements(FULL)}
    assert list(able) == list(KINDS)
    for kind, names in able.items():
        assert names == {"one", "direct"} | ({"other"} if kind in (CONNECTIONS, REQUESTS) else set())


def test_without_direct_there_are_contenders_alone(cabling: Cabling) -> None:
    these = course(cabling, Contender("one", 1, (), nothing), direct=False)
    assert all(set(these.routes(each)) == {"one"} for each in measurements(QUICK))


def test_all_but_downloads_is_steered() -> None:
    assert {each.kind for each in measurements(FULL) if not each.only_comes_down} == {UPLOAD, CONNECTIONS, REQUESTS}


@pytest.mark.parametrize(
    ("processor", "expected"),
    [(0, "1"), (1, "2"), (31, "80000000"), (32, "1,00000000"), (65, "2,00000000,00000000")],
)
def test_a_processor_is_a_bit_of_the_kernels_mask(processor: int, expected: str) -> None:
    assert mask(processor) == expected


def test_what_is_not_named_is_measured_whole() -> None:
    everything = PARTS.selected((), ())
    assert (everything.measurements, everything.peers) == (frozenset(PARTS.measurements), frozenset(PARTS.peers))
    some = PARTS.selected(("connections",), ("haproxy", "nginx"))
    assert (some.measurements, some.peers) == (frozenset({"connections"}), frozenset({"haproxy", "nginx"}))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["converter", "--only", "upload,downloads"], "--only: downloads: accepted: costs, delay, bulk, "),
        (["converter", "--peers", "native"], "--peers: native: accepted: squid, haproxy, "),
        (["accuracy", "--only", "upload"], "accuracy: --only and --peers: accepted with converter alone"),
    ],
)
def test_a_part_that_is_not_there_is_refused_before_anything_is_touched(arguments: list[str], complaint: str) -> None:
    with pytest.raises(Failure, match=complaint) as refused:
        main(["run", *arguments])
    assert refused.value.code is Exit.USAGE


def test_every_contender_has_a_name_and_a_port_of_its_own(cabling: Cabling) -> None:
    names = [each.name for each in every_contender(cabling)]
    assert names == ["native", "squid", "haproxy", "varnish", "nginx", "relay"]
    assert [*names[1:], DIRECT_NAME] == list(PARTS.peers)
    assert len({each.port for each in every_contender(cabling)}) == len(names)


def test_squid_and_ours_are_asked_and_the_others_forward(cabling: Cabling) -> None:
    asked = {each.name for each in every_contender(cabling) if "--via-http-proxy" in each.route}
    assert asked == {"native", "squid"}
    assert asked == {each.name for each in every_contender(cabling) if "--via-connect" in each.tunnel}


def test_the_bytes_of_a_bulk_measurement_are_the_same_for_any_number_of_connections() -> None:
    for extent in (FULL, QUICK):
        for each in measurements(extent):
            if each.is_bulk:
                told = dict(zip(each.arguments[1:5:2], map(int, each.arguments[2:5:2]), strict=True))
                assert told["--connections"] * told["--bytes"] == pytest.approx(extent.bulk_bytes, rel=1e-6)


def test_more_connections_than_there_are_descriptors_for_are_not_tried() -> None:
    assert most_held(10) == 10
    assert most_held(10**9) < 10**9
