"""What clients see of a hand-off when its parts fail: whole answers or a reset, and never another answer's bytes."""

import json
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext

import pytest

from experiments.handoff.network import BACK_ENDS
from experiments.testbed.usage import counters
from tests.netns.connections import TCP, Refused, take_head
from tests.netns.forging import ACK, FIN, RST, SYN, forged, send
from tests.netns.handoff_world import LARGE, SIZE, HandOff, answer, get, needs_tools, pattern, request
from tests.netns.short_probes import PROBED_FOR, shorten_probes
from tests.netns.world import eventually, listener_at, ruled, serving, socket_at

pytestmark = needs_tools


@contextmanager
def downloading(handoff: HandOff, path: str) -> Iterator[Future[bytes]]:
    """A download that is handed over, for the block; it is over behind it."""
    with handoff.begun(path) as client, ThreadPoolExecutor(1) as thread:
        yield thread.submit(answer, client)


def was_reset(download: Future[bytes]) -> bool:
    return str(download.exception()) == "reset"


def test_a_back_end_that_is_killed_resets_its_clients_at_once(handoff: HandOff) -> None:
    with downloading(handoff, f"a/{LARGE}") as download:
        begun = time.monotonic()
        handoff.kill("a")
    assert was_reset(download) and time.monotonic() - begun < 1
    eventually(lambda: handoff.outcomes("back-end-lost"))
    handoff.start("a")
    handoff.wait_for("a")


@pytest.mark.calm
def test_a_back_end_whose_machine_is_gone_resets_its_clients_within_six_seconds(handoff: HandOff) -> None:
    """0.6 to 0.7 s until the front has missed it (handoff/link/src/session.rs), 5 s in which it does not come back
    (handoff/front/src/back_end.rs), and some milliseconds to reset them."""
    with ExitStack() as cut:
        with downloading(handoff, f"a/{LARGE}") as download:
            begun = time.monotonic()
            cut.enter_context(handoff.without("a"))
        assert was_reset(download) and 5 < time.monotonic() - begun < 6
        with handoff.connection() as client:
            get(client, "b", 1000)
    handoff.wait_for("a")


def test_a_client_that_takes_nothing_without_timestamps_is_reset_as_well(handoff: HandOff) -> None:
    """As FreeBSD's can be: where both ends agreed on timestamps it may drop what has none (RFC 7323 section 3.2)."""
    rule = "tcp flags & (syn | rst) == 0 tcp option timestamp missing drop"
    strict = f"table ip strict {{ chain in {{ type filter hook input priority 0; {rule}; }}; }}"
    with ruled(handoff.nodes["client"], strict), ExitStack() as cut:
        with downloading(handoff, f"a/{LARGE}") as download:
            cut.enter_context(handoff.without("a"))
        assert was_reset(download)
    handoff.wait_for("a")


def shared(handoff: HandOff, count: int) -> list[str]:
    """So many paths of objects that both back ends have, and that a rule is for which names both."""
    for name in BACK_ENDS:
        folder = handoff.network.objects(name) / "shared"
        folder.mkdir(exist_ok=True)
        for number in range(count):
            (folder / str(number)).write_bytes(pattern("shared", 1000))
    return [f"shared/{number}" for number in range(count)]


def test_a_back_end_that_is_told_to_end_ends_its_answers_and_new_requests_go_elsewhere(handoff: HandOff) -> None:
    restart_back_end(handoff, "--drain", "60")
    paths = shared(handoff, 8)
    with handoff.connection() as resting, downloading(handoff, f"a/{LARGE}") as download:
        get(resting, "a", 1000)
        leaving = handoff.processes["a"]
        message = "the back end a is draining"
        # The one before was as well.
        heard = handoff.processes["front"].output().count(message)
        leaving.popen.send_signal(signal.SIGTERM)
        eventually(lambda: handoff.processes["front"].output().count(message) > heard)
        before = len(handoff.lines())
        for client in (resting, None):
            for path in paths:
                with handoff.connection() if client is None else nullcontext(client) as asking:
                    asking.sendall(request(path))
                    assert answer(asking) == pattern("shared", 1000)

        def served() -> Counter[str]:
            return Counter(line["target"] for line in handoff.lines()[before:] if line["outcome"] == "handed-over")

        # A connection is logged once it is over.
        eventually(lambda: served()["b"] >= len(paths) / 2)
        at_a = served()["a"]
        # What only this one has is relayed meanwhile.
        get(resting, "a", 1000)
    assert download.result() == pattern("a", LARGE)
    assert leaving.popen.wait(10) == 0
    # The front hears of an answer's end when its client asks again: of the one before as well.
    assert at_a <= 1
    assert handoff.outcomes("back-end-lost") == []
    handoff.start("a")
    handoff.wait_for("a")


@pytest.mark.parametrize("ended_by", ["bound", "signal"])
def test_a_back_end_that_is_told_to_end_waits_no_longer_than_it_may(ended_by: str, handoff: HandOff) -> None:
    """For a client that does not read: until --drain is over, or a second signal."""
    restart_back_end(handoff, "--drain", "2" if ended_by == "bound" else "60")
    leaving = handoff.processes.pop("a")
    with handoff.begun(f"a/{LARGE}") as client:
        begun = time.monotonic()
        leaving.popen.send_signal(signal.SIGTERM)
        if ended_by == "signal":
            eventually(lambda: "asked to stop" in leaving.output())
            leaving.popen.send_signal(signal.SIGTERM)
        assert leaving.popen.wait(10) == 0
        assert (time.monotonic() - begun >= 2) == (ended_by == "bound")
        with pytest.raises(Refused, match="reset"):
            answer(client)


def test_without_a_back_end_the_client_hears_so(handoff: HandOff) -> None:
    handoff.kill("a")
    eventually(lambda: b" 502 " in handoff.exchange(request("a/1")))


def test_a_switch_that_is_told_to_end_and_starts_anew_loses_no_connection(handoff: HandOff) -> None:
    with downloading(handoff, f"a/{LARGE}") as download:
        handoff.processes.pop("switch").stop()
        time.sleep(0.5)
        handoff.start("switch")
    assert download.result() == pattern("a", LARGE)
    handoff.wait_for("b")


def test_a_table_of_strays_that_somebody_removes_is_installed_again(handoff: HandOff) -> None:
    switch = handoff.nodes["switch"]
    before = switch.run("nft", "--terse", "list", "ruleset")
    assert "@back-ends" in before
    for command in ("flush ruleset", "flush table ip tributary-switch"):
        switch.run("nft", *command.split())
        eventually(lambda: "@back-ends" in switch.run("nft", "--terse", "list", "ruleset"))
    assert handoff.processes["switch"].output().count("table of strays is installed again") == 2


def test_connections_at_back_ends_finish_without_their_front(handoff: HandOff) -> None:
    with downloading(handoff, f"b/{LARGE}") as download:
        handoff.kill("front")
    assert download.result() == pattern("b", LARGE)
    # It waits for 12 s for the front to be back.
    eventually(lambda: not handoff.at_back_ends())
    handoff.start("front")
    handoff.wait_for("b")


def test_a_front_that_is_told_to_end_lets_its_connections_finish(handoff: HandOff) -> None:
    with downloading(handoff, f"b/{LARGE}") as download:
        handoff.processes.pop("front").stop()
    assert download.result() == pattern("b", LARGE)


@pytest.mark.calm
def test_a_front_that_is_told_to_end_takes_back_clients_that_ask_without_a_rest(handoff: HandOff) -> None:
    """Before its drain is over, which would break them off in the midst of an answer."""
    with handoff.connection() as client:
        for number in range(100_000):
            client.sendall(request("a/1000"))
            if not client.recv(1, socket.MSG_PEEK):
                break
            assert answer(client) == pattern("a", 1000)
            if number == 100:
                begun = time.monotonic()
                handoff.processes["front"].popen.terminate()
    assert time.monotonic() - begun < 0.8
    handoff.processes.pop("front").stop()


FLAGS = (RST, RST | ACK, SYN, FIN | ACK, ACK)


def test_packets_forged_where_the_client_is_change_nothing_for_a_connection_that_was_handed_over(
    handoff: HandOff,
) -> None:
    """With its addresses and ports; who forges does not know the sequence numbers."""
    with handoff.begun(f"a/{LARGE}") as client:
        send_from_clients_side(handoff, forged(*handoff.ends_of(client)[0], FLAGS))
        assert answer(client) == pattern("a", LARGE)
        get(client, "b", 1000)
    # They came to the back end's socket, which took them for what they were.
    assert syn_challenges(handoff) > 0


def test_packets_forged_where_another_back_end_is_are_dropped(handoff: HandOff) -> None:
    with handoff.begun(f"a/{LARGE}") as client:
        before = syn_challenges(handoff)
        for ends in handoff.ends_of(client):
            send(handoff.nodes["b"], forged(*ends, FLAGS))
        assert answer(client) == pattern("a", LARGE)
    assert syn_challenges(handoff) == before


def test_forged_ends_of_both_directions_and_a_new_beginning_end_no_rule(handoff: HandOff) -> None:
    """From the client's side, and the answer's end also from where its back end is; none with a right number. The
    client pauses in the midst of its answer meanwhile, so that little that is true passes."""
    with handoff.begun(f"a/{LARGE}") as client:
        to_service, to_client = handoff.ends_of(client)
        answers_end = forged(*to_client, [FIN | ACK], [1])
        send(handoff.nodes["a"], answers_end)
        both_ends = forged(*to_service, [FIN | ACK], [1]) + answers_end
        send_from_clients_side(handoff, both_ends + forged(*to_service, [SYN], [1]))
        # The switch looks twice a second.
        time.sleep(2)
        assert answer(client) == pattern("a", LARGE)


def send_from_clients_side(handoff: HandOff, packets: list[bytes]) -> None:
    """To the switch, by the device that leads to clients, whatever addresses they have."""
    switch = json.loads(handoff.nodes["switch"].run("ip", "-json", "link", "show", "to-client"))[0]["address"]
    with socket_at(handoff.nodes["client"], socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind(("eth0", 0))
        for packet in packets:
            sender.send(bytes.fromhex(switch.replace(":", "")) + bytes(6) + b"\x08\x00" + packet)


def syn_challenges(handoff: HandOff) -> int:
    """SYNs that the first back end's kernel asked their sender about, so far (RFC 5961 section 4.2)."""
    return counters(handoff.nodes["a"])["TcpExtTCPSYNChallenge"]


def test_a_client_that_vanishes_is_given_up(handoff: HandOff) -> None:
    restart_back_end(handoff, "--idle", "5")
    with ExitStack() as cut:
        with handoff.begun(f"a/{LARGE}"):
            cut.enter_context(handoff.without("client"))
        eventually(lambda: not handoff.at_back_ends(), 30)
        eventually(lambda: not handoff.at_front())


def restart_back_end(handoff: HandOff, *options: str) -> None:
    handoff.restart("a", *options)
    handoff.wait_for("a")


def test_a_client_that_pauses_gets_the_rest_of_its_answer(handoff: HandOff) -> None:
    """It has no room, and says so when its back end asks."""
    with handoff.connection() as client:
        client.sendall(request(f"a/{LARGE}"))
        time.sleep(40)
        assert answer(client) == pattern("a", LARGE)


def test_answers_stay_whole_and_their_own_while_everything_starts_anew(handoff: HandOff) -> None:
    """Each request gets its own answer in whole, a refusal, or a reset."""
    done, failed, stop = [0], [0], threading.Event()

    def ask() -> None:
        number = 0
        while not stop.is_set():
            try:
                with handoff.connection() as client:
                    while not stop.is_set():
                        number += 1
                        get(client, BACK_ENDS[number % 2], (1000, SIZE)[number % 3 == 0])
                        done[0] += 1
            except OSError:
                failed[0] += 1
                time.sleep(0.05)

    with ThreadPoolExecutor(4) as threads:
        asking = [threads.submit(ask) for _ in range(4)]
        try:
            for name in ("a", "switch", "b", "front", "a", "switch"):
                time.sleep(0.7)
                with handoff.killed(name):
                    time.sleep(0.3)
            time.sleep(1)
        finally:
            stop.set()
    for each in asking:
        each.result()
    assert done[0] > 50, (done, failed)


# --- Timers that would end what goes on ---

LONGER = PROBED_FOR + 3


@contextmanager
def slow_server(handoff: HandOff) -> Iterator[None]:
    """The first back end asks a server whose answers begin late, if their path says so."""

    def serve(connection: socket.socket) -> None:
        while True:
            if b"/late " in take_head(connection).partition(b"\r\n")[0]:
                time.sleep(LONGER)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

    with serving(listener_at(handoff.nodes["a"], 8080, "127.0.0.1", TCP), serve):
        handoff.restart("a", relays=True)
        handoff.wait_for("a")
        yield


def test_an_answer_whose_first_byte_comes_late_comes(handoff: HandOff) -> None:
    shorten_probes(handoff.processes["front"].popen.pid, 80)
    with slow_server(handoff), handoff.logged(2) as lines, handoff.connection() as client:
        client.sendall(request("a/late"))
        eventually(handoff.at_back_ends)
        assert answer(client) == b"hello"
        client.sendall(request("a/1"))
        assert answer(client) == b"hello"
    assert [line["outcome"] for line in lines] == ["handed-over"] * 2


def test_a_switch_that_starts_anew_late_in_a_long_answer_loses_no_connection(handoff: HandOff) -> None:
    """Without a rule the client's packets come to the front's socket, which is still there, and drops them."""
    shorten_probes(handoff.processes["front"].popen.pid, 80)
    with handoff.begun(f"a/{LARGE}") as client:
        time.sleep(LONGER)
        handoff.kill("switch")
        again = threading.Timer(1, handoff.start, ("switch",))
        again.start()
        assert answer(client) == pattern("a", LARGE)
        again.join()
