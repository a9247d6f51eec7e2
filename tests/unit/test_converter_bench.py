"""The pure parts of the converter's benchmark."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from experiments.bench.__main__ import main
from experiments.bench.converter import (
    BYTES,
    DOWNLOADS,
    KINDS,
    Converter,
    load_of,
    mask,
    present,
    ratios_of,
    value_of,
)
from experiments.bench.converter.contenders import CONTENDERS, Contender, Program
from experiments.bench.converter.counts import counted
from experiments.bench.converter.footprint import most_held
from experiments.bench.converter_growth import ConverterGrowth
from experiments.bench.parts import (
    BULK,
    CONNECTIONS,
    DELAY,
    DIRECT,
    HAPROXY_HTTP,
    MEASUREMENTS,
    NATIVE,
    PEERS,
    REQUESTS,
    TUNNEL,
    UPLOAD,
)
from experiments.probes.conversion import Conversions, Packet, conversions, packet
from experiments.study.changes import orders
from experiments.study.readings import Reading, Readings
from experiments.testbed.topology import Topology
from tests.refusals import command_error, usage_error
from tributary.settings.errors import CommandError, Exit

LINKS = Topology(())
FULL = Converter()
QUICK = Converter.model_validate(dict(Converter.quick))


def converted(packets: str) -> Conversions:
    """What packets come to, as "45 ccD": microseconds; from (c)lient or (s)erver, seen on the (c)lient's or (s)erver's
    side; SYN, (Y) SYN/ACK, data or ACK.
    """
    return conversions(
        Packet(1000 * int(at), side == "c", source != side, what == "D", what == "S", what == "Y")
        for at, source, side, what in re.findall(r"(\d+) (.)(.)(.)", packets)
    )


def test_delays_are_those_from_one_side_to_the_other() -> None:
    found = converted("0 ccS, 50 csS, 60 ccD, 85 csD, 100 ssD, 107 scD, 200 ccD, 203 csD, 300 ssD, 304 scD")
    assert (found.syn, found.first_data, found.data, found.reply) == ([50], [25], [3], [7, 4])


def test_the_time_that_the_client_takes_is_not_the_converters_own() -> None:
    # Of 100 microseconds 5 pass until the SYN/ACK, 80 until the request has come, and 15 until the SYN goes out.
    found = converted("0 ccS, 5 scY, 45 ccA, 85 ccD, 100 csS")
    assert (found.syn, found.own_syn) == ([100], [20])
    # One that connects at once, whatever else comes from the client.
    assert converted("0 ccS, 5 scY, 45 ccA, 47 csS, 48 ccD").own_syn == [7]


def test_a_connection_begins_with_its_syn_whatever_the_last_one_left() -> None:
    found = converted("0 ccS, 1 csS, 2 ccD, 10 ccS, 20 ccD, 21 csS, 25 csD")
    assert (found.syn, found.first_data, found.data) == ([1, 11], [5], [])


def test_only_the_first_segments_of_a_request_and_an_answer_count() -> None:
    found = converted("0 ccS, 1 csS, 2 ccD, 3 ccD, 5 csD, 6 csD, 10 ssD, 11 ssD, 14 scD, 15 ssD, 16 scD")
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
    frame = bytes(
        Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / network / TCP(flags=flags, options=options) / payload
    )
    padded = frame.ljust(60, b"\0")  # Ethernet's least frame is longer than a packet without data
    for each in (frame, padded):
        found = packet(each[:128], 5, client_side=True, outgoing=False)
        assert (found.has_data, found.is_syn, found.is_syn_ack) == expected


def told(reached: Mapping[tuple[str, str], Sequence[float]]) -> Readings:
    """Each repetition's figure by measurement and contender, as readings."""
    return Readings(
        Reading({"measure": measurement, "by": by}, repetition, {value_of(measurement): figure}, {})
        for (measurement, by), figures in reached.items()
        for repetition, figure in enumerate(figures, start=1)
    )


def ratios(readings: Readings) -> dict[str, float]:
    return {each.name: each.median for each in ratios_of(readings) if each.numbers}


def test_ratios_are_those_of_each_repetition_and_of_those_that_took_part() -> None:
    reached = {
        (BULK, NATIVE): [10.0, 30.0, 20.0],
        (BULK, "squid"): [4.0, 4.0, 100.0],
        (BULK, "direct"): [40.0, 40.0, 40.0],
        (CONNECTIONS, "nginx"): [5.0],
    }
    assert ratios(told(reached)) == {"bulk_vs_squid": 2.5, "bulk_vs_direct": 0.5}


def test_a_peer_that_stands_still_now_and_then_is_held_against_at_its_best() -> None:
    reached = {(BULK, NATIVE): [10.0, 30.0, 20.0], (BULK, "haproxy"): [1.0, 40.0, 2.0]}
    assert ratios(told(reached)) == {"bulk_vs_haproxy": 10, "bulk_vs_haproxy_best": 0.5}


def test_the_spread_of_uploads_is_that_of_ours_from_the_slowest_to_the_fastest() -> None:
    reached = {(UPLOAD, NATIVE): [4.0, 8.0, 2.0], (UPLOAD, "relay"): [4.0, 4.0, 4.0]}
    assert ratios(told(reached)) == {"upload_vs_relay": 1, "upload_spread": 0.25}


def reached_by(*contenders: str) -> Readings:
    return told({(each, name): [2.0] for each in KINDS for name in (NATIVE, *contenders)})


def test_the_ratios_have_what_their_readers_rely_on() -> None:
    of_downloads = {f"bulk_vs_{peer}" for peer in ("squid", "haproxy", "varnish", "relay", "direct")}
    of_uploads = {"upload_vs_haproxy", "upload_vs_varnish", "upload_vs_relay", "upload_vs_direct", "upload_spread"}
    of_connections = {f"connections_vs_{peer}" for peer in ("haproxy", "haproxy_http", "nginx", "squid")}
    of_connections |= {"tunnels_vs_haproxy", "tunnels_vs_nginx"}
    of_requests = {f"requests_vs_{peer}" for peer in ("haproxy", "haproxy_http", "nginx", "squid", "varnish")}
    best = {"bulk_vs_haproxy_best", "bulk_vs_varnish_best"}
    assert set(ratios(reached_by(TUNNEL, *PEERS))) == of_downloads | best | of_uploads | of_connections | of_requests


def test_there_is_no_ratio_to_who_is_not_here() -> None:
    found = ratios(reached_by("squid", "haproxy", "relay", DIRECT))
    assert found
    assert not [name for name in found if "nginx" in name or "varnish" in name]


def test_a_contender_that_is_not_installed_is_left_out_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    here = Contender("here", 1, Program(()), ("sh",))
    absent = Contender("absent", 2, Program(()), ("sh", "/no/such/module.so"))
    assert list(present([here, absent])) == [here]
    told = capsys.readouterr().err
    assert told == "absent is left out: /no/such/module.so is not here (scripts/setup --dev installs it)\n"


def of_throughput(options: Converter) -> dict[str, set[str]]:
    """Who takes part in each kind of measurement."""
    return {kind: {each["by"] for each in options.points(LINKS) if each["measure"] == kind} for kind in KINDS}


def test_who_stalls_is_left_out_of_bytes_alone() -> None:
    able = of_throughput(FULL)
    assert list(dict.fromkeys(each["measure"] for each in FULL.points(LINKS))) == list(MEASUREMENTS)
    for kind, names in able.items():
        some = set() if kind in (CONNECTIONS, REQUESTS) else {"nginx", HAPROXY_HTTP, TUNNEL}
        assert names == {NATIVE, TUNNEL, *PEERS} - some


def test_without_direct_there_are_contenders_alone() -> None:
    able = of_throughput(QUICK.model_copy(update={"peers": ("relay",)}))
    assert all(names - {TUNNEL} == {NATIVE, "relay"} for names in able.values())
    assert not [each for each in FULL.points(LINKS) if each["by"] == DIRECT and each["measure"] not in KINDS]


def test_all_but_downloads_is_steered() -> None:
    assert {kind for kind in KINDS if kind not in DOWNLOADS} == {UPLOAD, CONNECTIONS, REQUESTS}


@pytest.mark.parametrize(
    ("processor", "expected"), [(0, "1"), (1, "2"), (31, "80000000"), (32, "1,00000000"), (65, "2,00000000,00000000")]
)
def test_a_processor_is_a_bit_of_the_kernels_mask(processor: int, expected: str) -> None:
    assert mask(processor) == expected


def test_what_is_not_named_is_measured_whole() -> None:
    assert (FULL.only, FULL.peers) == (MEASUREMENTS, PEERS)
    (some,) = orders([FULL], ["only=connections", "peers=haproxy,nginx"])
    assert {(each["measure"], each["by"]) for each in some.points} == {
        (CONNECTIONS, by) for by in (NATIVE, TUNNEL, "haproxy", "nginx")
    }


def test_a_part_that_is_not_there_is_no_option_either() -> None:
    with pytest.raises(CommandError, match=r"only = 'downloads': accepted: costs, counts, delay, "):
        orders([FULL], ["only=downloads"])


def test_contenders_of_a_measurement_follow_each_other_and_costs_are_measured_alone() -> None:
    (order,) = orders([FULL], (), quick=True)
    turns = [(each["measure"], each.get("connections")) for _, each in order.readings]
    changes = [one for one, other in pairwise(turns) if one != other]
    assert len(changes) == 2 * len(set(turns)) - 2  # the second repetition begins where the first one ended
    stands = {each["measure"]: order.blueprint(each).as_json()["listening"] for each in order.points}
    assert stands["costs"] == stands["counts"] == []
    assert all(stands[kind] == list(CONTENDERS) for kind in (DELAY, *KINDS))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["converter", "--only", "upload,downloads"], "--only: downloads: accepted: costs, counts, delay, "),
        (["converter", "--peers", "native"], "--peers: native: accepted: squid, haproxy, "),
    ],
)
def test_a_part_that_is_not_there_is_refused_before_anything_is_touched(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complaint in usage_error(main, ["run", *arguments], capsys)


def test_a_part_of_what_has_none_is_refused_before_anything_is_touched() -> None:
    with command_error(Exit.USAGE, "accuracy: --only and --peers: accepted with converter alone"):
        main(["run", "accuracy", "--only", "upload"])


def test_every_contender_has_a_name_and_a_port_of_its_own() -> None:
    names = list(CONTENDERS)
    assert names == ["native", "tunnel", "squid", "haproxy", "haproxy_http", "varnish", "nginx", "relay"]
    assert [*names[2:], DIRECT] == list(PEERS)
    assert len({each.port for each in CONTENDERS.values()}) == len(names)


def test_squid_and_ours_are_asked_and_the_others_forward() -> None:
    asked = {name for name, each in CONTENDERS.items() if "--via-http-proxy" in each.route}
    assert asked == {"native", "squid"}
    assert asked | {TUNNEL} == {name for name, each in CONTENDERS.items() if "--via-connect" in each.tunnel}
    assert {name for name, each in CONTENDERS.items() if "--via-connect" in each.route} == {TUNNEL}


def test_the_bytes_of_a_bulk_measurement_are_the_same_for_any_number_of_connections() -> None:
    for options in (FULL, QUICK):
        for point in options.points(LINKS):
            if point["measure"] in BYTES:
                load = load_of(point, options.size.amount, options.seconds)
                said = dict(zip(load[1:5:2], map(int, load[2:5:2]), strict=True))
                assert said["--connections"] * said["--bytes"] == pytest.approx(options.size.amount, rel=1e-6)


def test_more_connections_than_there_are_descriptors_for_are_not_tried() -> None:
    assert most_held(10) == 10
    assert most_held(10**9) < 10**9


def test_growth_compares_the_most_tunnels_that_were_held_with_the_fewest() -> None:
    def beside(count: int, rate: float, instructions: float) -> Reading:
        values = {"rss_mb": 7.0, "requests_per_second": rate, "instructions_per_request": instructions}
        return Reading({"by": NATIVE, "workers": "2", "open": str(count)}, 1, values, {})

    left_out = Reading({"by": NATIVE, "workers": "2", "open": "50000"}, 1, {}, {})
    found = {
        each.name: each
        for each in ConverterGrowth().metrics(Readings([beside(100, 10, 50), beside(7000, 9, 40), left_out]))
    }
    assert found["requests_per_second_flat_2"].median == pytest.approx(0.9)
    assert found["instructions_per_request_flat_2"].median == pytest.approx(1.25)
    assert found["rss_mb of 2 workers beside 7000"].median == 7
    assert not [name for name in found if "50000" in name]


@pytest.mark.parametrize(
    ("total", "calls"),
    [
        ("100.00    0.000003          12      2886        10 total", 2886),
        ("100.00    0.000003          12      2886           total", 2886),
        ("", None),
    ],
)
def test_calls_are_counted_with_and_without_failed_ones(total: str, calls: int | None) -> None:
    assert counted(f" 60.00    0.000003           1         2           close\n{total}\n") == calls
