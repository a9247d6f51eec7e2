"""The pure parts of the benchmarks and their probes."""

import json
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from ipaddress import IPv4Address
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

from experiments.bench import accuracy, enforcement, offload, offload_soak, throttler_scale
from experiments.bench.accuracy import Sample, before_cut
from experiments.bench.enforcement import summed_up
from experiments.bench.pair import held
from experiments.probes.download import answered, read_body, requested
from experiments.probes.handshake_frames import Ends, subflows
from experiments.probes.installs import Join, join_ack_filter, latencies
from experiments.probes.knock import knock
from experiments.probes.nft_events import new_subflows
from experiments.testbed.appliance import policy_over
from experiments.testbed.cables import PATHS
from tests.unit.throttler.test_capture_filter import run as run_filter
from throttler.policy import model as policy
from throttler.sources.dissect import segment
from throttler.sources.tracker import Tracker
from tributary.mptcp.events import Event, SubflowEstablished
from tributary.settings.errors import CommandError

ENDS = Ends(b"\2clien", b"\2lstnr", IPv4Address("10.64.0.1"), IPv4Address("10.128.0.1"), 3128)
FIRST, SECOND = ("10.1.1.1", 3128, "10.1.2.2", 40001), ("10.1.1.1", 3128, "10.1.2.3", 40001)

# One transaction, as Linux 6.18 told it: a class, an element for IPv4 and one for IPv6.
ADDED = bytes.fromhex(
    "500000000c0a000400000000284b0000010000030e0001007468726f74746c65720000000c000200636c617373657300200003001c000100"
    "0c00010008000100010052540c0002000800010001005254600000000c0a000400000000284b0000010000030e0001007468726f74746c65"
    "720000000e000200737562666c6f7773340000002c0003002800010018000100140001000a0101010c3800000a0102029c4100000c000200"
    "0800010001005254780000000c0a000400000000284b0000010000030e0001007468726f74746c65720000000e000200737562666c6f7773"
    "360000004400030040000100300001002c000100fd0000000000000000000000000000010c380000fd000000000000020000000000000002"
    "9c4200000c0002000800010002005254"
)
DELETED = bytes.fromhex(
    "600000000e0a000000000000294b0000010000040e0001007468726f74746c65720000000e000200737562666c6f777334000000"
    "2c0003002800010018000100140001000a0101010c3800000a0102029c4100000c0002000800010001005254"
)


def test_new_elements_are_told_by_their_4_tuples_and_removed_ones_are_none() -> None:
    assert list(new_subflows(ADDED)) == [FIRST, ("fd00::1", 3128, "fd00:0:0:2::2", 40002)]
    assert list(new_subflows(DELETED)) == []


def test_a_notification_cut_short_gives_what_is_whole() -> None:
    found = [len(list(new_subflows(ADDED[:length]))) for length in range(len(ADDED))]
    assert found == sorted(found)
    assert found[-1] <= 2


def test_every_played_subflow_is_established_and_nothing_is_ignored() -> None:
    tracker = Tracker()
    found: list[Event] = []
    for time, subflow in enumerate(subflows(ENDS, 12, by_session=4, by_client=8)):
        for step, (frame, outgoing) in enumerate(((subflow.syn, False), (subflow.syn_ack, True), (subflow.ack, False))):
            seen = segment(frame, Ether, 10 * time + step, "path1", outgoing)
            assert seen is not None
            found += tracker.handle(seen)
    events = [event for event in found if isinstance(event, SubflowEstablished)]
    assert events == found
    assert Counter(event.token for event in events).most_common() == [(event.token, 4) for event in events[::4]]
    assert Counter(event.subflow.remote for event in events) == {"10.64.0.1": 8, "10.64.0.2": 4}
    assert len({event.subflow for event in events}) == 12
    assert sum(tracker.counts.values()) == 12


def test_played_frames_have_right_checksums() -> None:
    for subflow in subflows(ENDS, 2, by_session=2, by_client=2):
        for frame in (subflow.syn, subflow.syn_ack, subflow.ack):
            packet = Ether(frame)
            wanted = (packet[IP].chksum, packet[TCP].chksum)
            del packet[IP].chksum, packet[TCP].chksum
            again = Ether(bytes(packet))
            assert (again[IP].chksum, again[TCP].chksum) == wanted


def with_time_stamps(frame: bytes) -> bytes:
    """The packet in ``frame`` with twelve bytes of options, as Linux writes them, before its own."""
    packet = frame[14:]
    return packet[:40] + b"\1\1\x08\x0a" + bytes(8) + packet[40:]


def test_the_filter_takes_third_acks_of_joins_alone() -> None:
    opening, join = subflows(ENDS, 2, by_session=2, by_client=2)
    program = join_ack_filter(ENDS.port)
    assert run_filter(program, with_time_stamps(join.ack))
    for other in (opening.syn, opening.syn_ack, opening.ack, join.syn, join.syn_ack):
        assert not run_filter(program, with_time_stamps(other))
    assert not run_filter(join_ack_filter(80), with_time_stamps(join.ack))


@pytest.mark.parametrize(
    ("joins", "added", "expected"),
    [
        ([(1000, FIRST)], [(3000, FIRST)], [2000]),
        ([(1000, FIRST)], [(3000, SECOND)], [None]),
        ([(1000, FIRST), (1500, FIRST)], [(3000, FIRST)], [2000]),  # sent again
        ([(1000, FIRST), (5000, FIRST)], [(3000, FIRST), (9000, FIRST)], [2000, 4000]),  # used again
        ([(4000, FIRST)], [(3000, FIRST)], [None]),  # of an earlier subflow
        ([(2000, SECOND), (1000, FIRST)], [(3000, FIRST), (3000, SECOND)], [2000, 1000]),
    ],
)
def test_a_join_is_matched_with_the_first_element_after_it(
    joins: list[Join], added: list[Join], expected: list[float | None]
) -> None:
    found = [None if latency is None else round(1e9 * latency) for _, latency in latencies(joins, added)]
    assert found == expected


def test_what_was_measured_under_load_is_summed_up() -> None:
    values, medians = summed_up([(10.0, 0.002), (10.5, 0.004), (11.5, None), (12.0, 0.006)])
    assert values == {"p50_ms": 4, "p99_ms": pytest.approx(5.96), "joins": 4, "missed": 1, "joins_per_second": 1.5}
    assert medians == [3, 6]


def fast_then_slow(fast: float, slow: float, cut: float) -> list[Sample]:
    """Ten seconds at ``fast`` and then, after ``cut`` seconds, ``slow`` bytes a second."""
    times = [number / 10 for number in range(101)]
    return [Sample(at, int(fast * min(at, cut) + slow * max(0, at - cut))) for at in times]


def test_the_cut_is_found_between_two_samples() -> None:
    assert before_cut(fast_then_slow(6e6, 125e3, 3.33), 1e6) == pytest.approx(6e6 * 3.33, rel=1e-4)


@pytest.mark.parametrize(
    ("samples", "wrong"),
    [(fast_then_slow(6e6, 6e6, 3.33), "the rate did not fall"), (fast_then_slow(1e9, 125e3, 0.05), "too fast")],
)
def test_a_quota_that_never_cuts_or_before_the_second_sample_is_refused(samples: list[Sample], wrong: str) -> None:
    with pytest.raises(CommandError, match=wrong):
        before_cut(samples, 1e6)


RULES = {
    "enforcement": enforcement.RULE,
    "throttler-scale": throttler_scale.RULE,
    "download": held("5mbit", "download"),
    "upload": held("5mbit", "upload"),
    "quota": accuracy.quota_rule("20MB"),
}


@pytest.mark.parametrize("name", RULES)
def test_the_throttler_accepts_the_policy_of_every_benchmark(name: str) -> None:
    assert policy.parse(policy_over(PATHS, RULES[name]), name, Path(name)).interfaces == PATHS


def samples(before: float, after: float, gap: float) -> Iterator[offload.Sample]:
    """Of 10 s with 100 a second: the relay offloads at 5 s; bytes a second, and ``gap`` seconds without any."""
    sent = 0.0
    for number in range(1000):
        at = number / 100
        processor = 0.4 * min(at, 5) + 0.1 * max(0, at - 5)
        yield offload.Sample(100 + at, int(sent), processor, offloaded=at >= 5)
        sent += (before if at < 5 else 0 if at < 5 + gap else after) / 100


def test_before_and_after_are_moments_of_one_transfer() -> None:
    told = offload.told(list(samples(before=1e9, after=2e9, gap=0.2)))
    assert told["before_mbps"] == pytest.approx(8000)
    assert told["after_mbps"] == pytest.approx(16000)
    assert told["before_cpu_ms_per_gb"] == pytest.approx(400)
    assert told["after_cpu_ms_per_gb"] == pytest.approx(50)
    assert told["dip_ms"] == pytest.approx(200, abs=11)
    assert offload.told(list(samples(before=1e9, after=1e9, gap=0)))["dip_ms"] == 0


def test_what_the_relay_told_is_counted() -> None:
    lines: list[dict[str, Any]] = [
        {"paused": 30.0},
        {"paused": 50.0},
        {"paused": 40.0},
        {"relayed": 100, "translated": 300, "refused": 0},
        {"relayed": 100, "translated": 500, "refused": 2},
        {"relayed": 100, "translated": 0, "refused": 0},
        {"reason": "it was not tried", "relayed": 500},
    ]
    assert offload_soak.told(lines) == {
        "transfers": 4,
        "offloaded": 3,
        "offloaded_percent": 75,
        "translated_percent": pytest.approx(100 * 800 / 1100),
        "refused": 2,
        "paused_ms": 40,
    }


@contextmanager
def answering(response: bytes) -> Iterator[str]:
    """A server that gives every connection the same response; the URL is for it."""

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # the listener is closed
            with connection:
                connection.recv(65536)
                connection.sendall(response)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        Thread(target=serve, args=(listener,), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/file"
        listener.shutdown(socket.SHUT_RDWR)


def test_a_response_is_read_to_its_length() -> None:
    with (
        answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello") as url,
        requested(url, None, "127.0.0.1", mptcp=False) as connection,
    ):
        response = answered(connection)
        assert (response.status, b"".join(read_body(response))) == (200, b"hello")


@pytest.mark.parametrize("cut", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"])
def test_a_response_that_ends_early_is_an_error(cut: bytes) -> None:
    with answering(cut) as url, requested(url, None, None, mptcp=False) as connection, pytest.raises(EOFError):
        list(read_body(answered(connection)))


def transferred(url: str, *options: str) -> dict[str, float]:
    """What the probe prints."""
    command = [sys.executable, "-m", "experiments.probes.transfers", url, *options]
    begun, result = subprocess.run(command, capture_output=True, check=True).stdout.splitlines()
    assert begun == b"begun"
    told: dict[str, float] = json.loads(result)
    return told


def test_bytes_of_all_transfers_at_once_count() -> None:
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello") as url:
        assert transferred(url, "--seconds", "30", "--connections", "3")["bytes"] == 15
        assert transferred(url, "--seconds", "30", "--upload", "7")["bytes"] == 7


@pytest.mark.parametrize(("options", "arrived"), [((), 0), (("--upload", "7"), 7)])
def test_a_transfer_is_broken_off_in_time_and_counts_by_what_has_arrived(options: Sequence[str], arrived: int) -> None:
    """Whom nobody answers: the kernel acknowledges what it takes."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        told = transferred(f"http://127.0.0.1:{listener.getsockname()[1]}/file", "--seconds", "0.3", *options)
        assert told["bytes"] == arrived and 0.3 <= told["seconds"] < 10


def test_a_transfer_whose_connect_nobody_answers_is_broken_off_in_time_too() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=0)
    # A queue that is full drops what else would connect.
    with closing(listener), closing(socket.create_connection(listener.getsockname())):
        told = transferred(f"http://127.0.0.1:{listener.getsockname()[1]}/file", "--seconds", "0.3")
    assert told["bytes"] == 0 and 0.3 <= told["seconds"] < 10


def test_a_download_is_broken_off_in_time_though_nothing_comes_and_counts_by_what_has_arrived() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/file"
        command = [sys.executable, "-m", "experiments.probes.download", url, "--seconds", "0.3"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as probe, closing(listener.accept()[0]) as peer:
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel")
            told, _ = probe.communicate(timeout=20)
    assert probe.returncode == 0 and json.loads(told.splitlines()[-1])["bytes"] == 3


def test_who_refuses_and_who_listens_answer_a_stranger() -> None:
    with closing(socket.create_server(("127.3.0.1", 0))) as listener:
        port = f"tcp/{listener.getsockname()[1]}"
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as silent:
            silent.bind(("127.3.0.1", 0))
            dumb = f"udp/{silent.getsockname()[1]}"
            assert knock("127.3.0.1", 0.1, [port, "tcp/9", "udp/9", dumb]) == [port, "tcp/9", "udp/9"]
