"""Request hand-off: unmodified clients, a front that no answer passes, and back ends that answer them.

The network is experiments/handoff/network.py's.
"""

import json
import shlex
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from experiments.handoff.network import BACK_ENDS, TOGETHER, URL, Network
from experiments.testbed import native
from experiments.testbed.network import lay, standing_nodes
from tests.netns.connections import TCP, reset
from tests.netns.handoff_world import LONG, SIZE, HandOff, answer, at_work, get, needs_tools, pattern, request
from tests.netns.test_converter_old_kernels import OPTIONAL, without
from tests.netns.world import connected, eventually, needs, run, sysctl
from tributary.paths import ROOT

pytestmark = needs_tools


@pytest.mark.smoke
def test_one_connection_gets_objects_from_both_back_ends_none_of_them_passes_the_front_and_each_has_its_line(
    handoff: HandOff, tmp_path: Path
) -> None:
    sizes = (SIZE, SIZE, SIZE, SIZE, 1000, SIZE)
    before = handoff.passed_front()
    with handoff.logged(6) as lines:
        got = handoff.fetch([f"{name}/{size}" for name, size in zip("abbaba", sizes, strict=True)], tmp_path)
        passed = handoff.passed_front() - before
    assert got == [pattern(name, size) for name, size in zip("abbaba", sizes, strict=True)]
    assert passed < SIZE / 10, "the front carried payload"
    assert [(line["outcome"], line["target"]) for line in lines] == [("handed-over", name) for name in "abbaba"]
    for line, size in zip(lines, sizes, strict=True):
        assert size < line["down_bytes"] < size + 1000, "the content and its head"
        assert 0 < line["seconds"] < 10


def test_parts_heads_and_what_is_not_there_come_by_the_same_connection(handoff: HandOff, tmp_path: Path) -> None:
    whole = pattern("a", SIZE)
    handoff.curl("--range", "1000000-1000009", "--output", str(tmp_path / "part"), URL + f"a/{SIZE}")
    assert (tmp_path / "part").read_bytes() == whole[1000000:1000010]
    assert "Content-Length: 2000000" in handoff.curl("--head", URL + f"a/{SIZE}")
    got = handoff.fetch(["a/0", "a/none", "b/1", f"a/{SIZE}"], tmp_path)
    assert got[2:] == [pattern("b", 1), whole]


def test_an_upload_goes_to_its_back_end_by_way_of_the_switch_alone(handoff: HandOff, tmp_path: Path) -> None:
    source = tmp_path / "upload"
    source.write_bytes(pattern("upload", 5 * SIZE))
    handoff.restart("b", "--uploads", "10")
    handoff.wait_for("b")
    before = handoff.passed_front()
    handoff.curl("--fail", "--header", "Expect: 100-continue", "--upload-file", str(source), URL + "b/new")
    assert handoff.passed_front() - before < SIZE / 10
    assert (handoff.network.objects("b") / "b/new").read_bytes() == source.read_bytes()
    handoff.curl("--fail", "--header", "Expect:", "--upload-file", str(source), URL + "b/newer")
    assert (handoff.network.objects("b") / "b/newer").read_bytes() == source.read_bytes(), "relayed"


def test_requests_are_answered_in_order_by_whom_they_are_for_that_come_early_in_pieces_or_after_a_rest(
    handoff: HandOff,
) -> None:
    names = "abbab" * 4
    with handoff.connection() as client:
        client.sendall(b"".join(request(f"{name}/1000") for name in names))
        for name in names:
            assert answer(client) == pattern(name, 1000)
        for name in "aba":
            for byte in request(f"{name}/1000"):
                client.sendall(bytes([byte]))
            assert answer(client) == pattern(name, 1000)
        # A connection that rests goes back to the front, and on from there.
        for name in "aab":
            get(client, name, 1000)
            eventually(lambda: not handoff.at_back_ends())


def test_a_client_that_has_ended_its_direction_gets_the_whole_answer_and_of_one_that_resets_nothing_is_left(
    handoff: HandOff,
) -> None:
    with handoff.connection() as client:
        client.sendall(request(f"a/{SIZE}"))
        client.shutdown(socket.SHUT_WR)
        assert answer(client) == pattern("a", SIZE)
    with handoff.begun(f"a/{LONG}") as client:
        client.shutdown(socket.SHUT_WR)
        assert answer(client) == pattern("a", LONG)
    eventually(lambda: not handoff.at_back_ends())
    with handoff.begun(f"a/{LONG}") as client:
        reset(client)
    eventually(handoff.at_rest)


def test_a_client_that_asks_for_more_and_ends_its_direction_gets_all_that_its_back_end_has(handoff: HandOff) -> None:
    """Its connection can go nowhere else. What is for another back end it does not get, least of all from this one."""
    for names in ("aaa", "aab"):
        with handoff.begun(f"a/{LONG}") as client:
            client.sendall(b"".join(request(f"{name}/1000") for name in names[1:]))
            client.shutdown(socket.SHUT_WR)
            assert answer(client) == pattern("a", LONG)
            for name in names[1:].replace("b", ""):
                assert answer(client) == pattern(name, 1000)
            assert client.recv(1) == b""
        eventually(handoff.at_rest, 10)
    assert all(line["down_bytes"] for line in handoff.outcomes("handed-over")), "what nobody answered is in the log"


def test_what_no_rule_is_for_is_relayed_or_refused(handoff: HandOff, tmp_path: Path) -> None:
    assert b"404" in handoff.exchange(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"400" in handoff.exchange(b"GET / HTTP/1.1\r\n\r\n")
    assert b"505" in handoff.exchange(b"GET / HTTP/3.0\r\n\r\n")
    handoff.fetch(["relayed/none", "a/1"], tmp_path)
    assert {line.get("status") for line in handoff.lines()} >= {404, 400, 505}
    # A connection is logged once it is over.
    assert eventually(lambda: handoff.outcomes("ok"))[-1]["server"] == f"{handoff.network.address('a')}:80"


def test_strays_at_a_hand_off_port_are_not_answered(handoff: HandOff) -> None:
    for node in ("client", "a"):
        with pytest.raises(TimeoutError):
            connected(handoff.nodes[node], handoff.network.address("a"), 7400, seconds=1.5, protocol=TCP)


@needs("nginx")
def test_any_server_answers_behind_a_back_end_that_relays(handoff: HandOff, tmp_path: Path) -> None:
    with handoff.network.start_nginx("a"):
        handoff.restart("a", relays=True)
        handoff.wait_for("a")
        before = handoff.passed_front()
        paths = [f"a/{SIZE}", f"b/{SIZE}", "a/none", f"a/{SIZE}"]
        got = handoff.fetch(paths, tmp_path)
        assert handoff.passed_front() - before < SIZE / 10
        assert [got[0], got[1], got[3]] == [pattern(name, SIZE) for name in "aba"]
        assert b"nginx" in got[2]
        assert "X-Served-By: nginx" in handoff.curl("--head", URL + "a/1")


def test_a_front_on_the_switchs_own_machine_hands_over_too(handoff_network: Network, tmp_path: Path) -> None:
    network = handoff_network
    with ExitStack() as running:
        running.enter_context(network.start_switch(together=True))
        for name in BACK_ENDS:
            running.enter_context(network.start_back_end(name))
        running.enter_context(network.start_front(together=True))
        handoff = HandOff(network, service=TOGETHER)
        handoff.wait_for("a", "b")
        before = len(handoff.outcomes("ok"))
        paths = [f"{name}/{SIZE}" for name in "abba"]
        assert handoff.fetch(paths, tmp_path) == [pattern(path[0], SIZE) for path in paths]
        assert len(handoff.outcomes("ok")) == before, "nothing was relayed"


@needs("nginx")
def test_the_demo_shows_it() -> None:
    result = json.loads(run(str(ROOT / "scripts/handoff"), "demo", "--json", "--size", "5MB"))
    assert result["holds"] and result["connections"] == 1
    assert result["cable_bytes"]["client"] > 30_000_000 > 10 * result["cable_bytes"]["front"]


# --- The way to the client ---

_FAR = """
far:wide 10.7.9.2/24 -- middle:wide 10.7.9.1/24
far: ip route add default via 10.7.9.1
client:narrow 10.7.8.1/24 -- middle:narrow 10.7.8.2/24
client middle: ip link set narrow mtu 1300
middle: ip route add default via 10.7.8.1
client middle: sysctl -qw net.ipv4.ip_forward=1
client: ip route add 10.7.9.0/24 via 10.7.8.2
switch: ip route add 10.7.9.0/24 via 10.7.0.2
"""


@pytest.fixture
def far(handoff: HandOff, tmp_path: Path) -> Iterator[HandOff]:
    """The same, with a client that is two routers away, and with packets of 1300 bytes at most between them.

    far 10.7.9.2 ---- middle ---- 1300 bytes ---- the client's node ---- switch
    """
    nodes = handoff.nodes
    with standing_nodes("far-", _FAR, tmp_path, nodes) as beyond:
        handoff.restart("front", instead={"10.7.0.0/24": "10.7.0.0/16"})
        handoff.wait_for("a")
        nodes["far"] = beyond["far"]
        try:
            yield handoff
        finally:
            del nodes["far"]
            lay("switch: ip route delete 10.7.9.0/24\nclient: ip link delete narrow", nodes)


def test_a_back_end_hears_that_the_way_to_its_client_takes_shorter_packets(far: HandOff) -> None:
    with far.logged(2) as lines, far.connection("far") as client:
        for _ in range(2):
            get(client, "a", SIZE)
    assert [line["outcome"] for line in lines] == ["handed-over"] * 2


def test_a_client_that_asks_for_congestion_notification_is_handed_over_unless_the_switch_lets_the_service_hear_it(
    handoff: HandOff,
) -> None:
    """The switch hides the request from the service, so ECN is not used. What is in the way is counted by its name."""
    with sysctl(handoff.nodes["client"], net__ipv4__tcp_ecn=1):
        with handoff.begun(f"a/{LONG}") as client:
            assert answer(client) == pattern("a", LONG)
        # Somebody has taken its table away.
        handoff.nodes["switch"].run("nft", "delete", "table", "ip", "tributary-switch")
        with handoff.connection() as client:
            get(client, "a", 1000)
    assert handoff.metrics()['tributary_converter_handoff_failures_total{reason="ecn"}'] == 1


# --- Kernels that do not know socket options which only make connections quicker ---


def refusing(folder: Path, program: Path) -> Path:
    """The program behind a filter that refuses the options."""
    # A connection that is handed over must not be probed meanwhile: that option every kernel has.
    refused = without(*(option for name, option in OPTIONAL.items() if name != "SO_KEEPALIVE"))
    command = shlex.join([*refused, str(program)])
    script = folder / program.name
    script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    script.chmod(0o755)
    return script


@pytest.fixture
def old(handoff_network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HandOff]:
    real = handoff_network.programs
    programs = native.HandOff(refusing(tmp_path, real.switch), refusing(tmp_path, real.back_end))
    monkeypatch.setattr(Network, "programs", property(lambda _: programs))
    with at_work(handoff_network) as world:
        yield world


def test_requests_are_handed_over_where_the_kernel_refuses_what_makes_them_quicker(
    old: HandOff, tmp_path: Path
) -> None:
    assert old.fetch([f"a/{SIZE}", "b/1000"], tmp_path) == [pattern("a", SIZE), pattern("b", 1000)]
