import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.netns.connections import TCP, read_all, reset
from tests.netns.forging import ACK, RST, forged, send
from tests.netns.handoff_world import LARGE, LONG, SIZE, HandOff, answer, get, needs_tools, pattern, request
from tests.netns.test_handoff_faults import restart_back_end
from tests.netns.world import connected, eventually, sysctl

pytestmark = needs_tools


def is_handed(handoff: HandOff, client: socket.socket) -> bool:
    """Whether this client's next request is answered by its back end."""
    get(client, "a", 1000)
    return bool(handoff.at_back_ends())


def test_who_finds_the_switchs_table_full_is_answered_by_relaying(handoff: HandOff) -> None:
    handoff.restart("switch", "--max-rules", "1")
    with handoff.connection() as first:
        eventually(lambda: is_handed(handoff, first))
        first.sendall(request(f"a/{LARGE}"))
        relayed = len(handoff.outcomes("ok"))
        with handoff.connection() as second:
            for name in "ab":
                get(second, name, SIZE)
        assert answer(first) == pattern("a", LARGE)
        assert len(handoff.outcomes("ok")) == relayed + 2


def test_a_rule_that_ends_by_idleness_leaves_its_client_without_an_answer_until_it_sends_more(handoff: HandOff) -> None:
    """A client that does not read for longer than --idle. Nothing is wrong that comes; its back end gives it up."""
    handoff.restart("switch", "--idle", "2")
    restart_back_end(handoff, "--idle", "15")
    with handoff.connection() as client:
        eventually(lambda: is_handed(handoff, client))
        client.sendall(request(f"a/{LARGE}"))
        # By then the back end asks for room less often than the rule lasts.
        time.sleep(8)
        client.settimeout(3)
        content = bytearray()
        with pytest.raises(TimeoutError):
            while True:
                content += client.recv(1 << 20)
        assert pattern("a", LARGE).startswith(content.partition(b"\r\n\r\n")[2])
        assert len(content) < LARGE
        eventually(lambda: not handoff.at_back_ends(), 40)
        with pytest.raises(ConnectionResetError):
            for _ in range(10):
                client.sendall(request("a/1"))
                time.sleep(0.5)


def from_port(handoff: HandOff, port: int, room: int = 0) -> socket.socket:
    """A client's connection from this port (0: any), which has ``room`` for so many bytes that it has not read.

    Named ports are below those that the kernel picks: one of another connection's may rest in TIME-WAIT.
    """
    own, front = (handoff.network.address("client"), port), handoff.network.address("front")
    return connected(handoff.nodes["client"], front, 80, own, 20, protocol=TCP, receive_buffer=room)


def last_request(path: str, head: bytes = b"Connection: close\r\n") -> bytes:
    """For an object, with one more line in its head."""
    return request(path)[:-2] + head + b"\r\n"


def one_exchange(handoff: HandOff, port: int) -> float:
    """A connection from this port that its back end ends; the seconds that it took."""
    begun = time.monotonic()
    with from_port(handoff, port) as client:
        client.sendall(last_request("a/1000"))
        assert answer(client) == pattern("a", 1000)
        assert client.recv(1) == b""
    return time.monotonic() - begun


def test_a_client_that_reads_slowly_gets_all_of_an_answer_that_ends_its_connection(handoff: HandOff) -> None:
    """Its back end has written all of it; the kernel still has to send the rest when a quick client would be done."""
    content = bytearray()
    with from_port(handoff, 0, room=1 << 16) as client:
        client.sendall(last_request(f"a/{LONG}"))
        while len(content) < LONG - 200_000:
            content += client.recv(1 << 16)
        # For longer than the last segments of a connection may come, and its rule stays for them.
        time.sleep(9)
        content += read_all(client)[0]
    assert content.partition(b"\r\n\r\n")[2] == pattern("a", LONG)
    eventually(lambda: not handoff.at_back_ends())
    eventually(lambda: handoff.outcomes("handed-over")[-1]["down_bytes"] > LONG)


@pytest.mark.parametrize("head", [b"", b"Connection: close\r\n"], ids=["keeps", "ends"])
def test_a_client_that_breaks_off_at_the_end_of_an_answer_can_use_its_port_again(head: bytes, handoff: HandOff) -> None:
    """Its back end has written all of it, and waits until it is acknowledged."""
    port = 20420 + len(head)
    with from_port(handoff, port, room=1 << 16) as client:
        client.sendall(last_request(f"a/{LONG}", head))
        came = 0
        while came < LONG - 200_000:
            came += len(client.recv(1 << 16))
        reset(client)
    eventually(handoff.at_rest)
    assert one_exchange(handoff, port) < 10


def test_a_client_that_rests_stays_however_little_a_back_end_waits_for(handoff: HandOff) -> None:
    restart_back_end(handoff, "--idle", "1")
    with handoff.connection() as client:
        eventually(lambda: is_handed(handoff, client))
        time.sleep(2)
        get(client, "b", 1000)


def test_a_port_that_is_used_again_keeps_its_rule_whichever_thread_had_it_before(handoff: HandOff) -> None:
    """The rule before ends later than the connection, by the thread of the front that had it."""
    ports = range(20410, 20420)
    with ThreadPoolExecutor(len(ports)) as pool:
        list(pool.map(lambda port: again(handoff, port), ports))


def again(handoff: HandOff, port: int) -> None:
    """Two connections from a port, soon after each other; the second one rests until the first one's rule would end."""
    one_exchange(handoff, port)
    with from_port(handoff, port) as client:
        client.sendall(request(f"a/{LONG}"))
        time.sleep(7)
        assert answer(client) == pattern("a", LONG)


def remembers(handoff: HandOff, port: int) -> bool:
    """Whether the back end holds an ended connection of this port's in TIME-WAIT."""
    return f":{port}" in handoff.nodes["a"].run("ss", "-Htan", "state", "time-wait")


def test_a_client_that_connects_again_from_its_port_does_not_wait_for_the_rule_before(handoff: HandOff) -> None:
    """Its first SYN still goes to the back end, which drops it; the next one, a second later, comes to the front."""
    one_exchange(handoff, 20404)
    eventually(lambda: remembers(handoff, 20404))
    assert one_exchange(handoff, 20404) < 3


@pytest.mark.parametrize(("clocks", "outcome"), [(1, "handed-over"), (0, "ok")], ids=["with-clocks", "without"])
def test_a_connection_that_its_back_end_remembers_is_answered(handoff: HandOff, clocks: int, outcome: str) -> None:
    """With timestamps the kernel puts the new connection in the place of the old one (tcp_twsk_unique()). Without, it
    refuses, and the front relays."""
    port = 20405 + clocks
    with sysctl(handoff.nodes["client"], net__ipv4__tcp_timestamps=clocks):
        one_exchange(handoff, port)
        eventually(lambda: remembers(handoff, port))
        # Until the switch's rule has ended.
        time.sleep(6)
        one_exchange(handoff, port)
    eventually(lambda: len([line for line in handoff.lines() if line["client"].endswith(f":{port}")]) == 2)
    assert handoff.lines()[-1]["outcome"] == outcome


def test_late_packets_of_a_rule_that_ended_change_nothing(handoff: HandOff) -> None:
    """When the connection is back at the front its back end's last packets come once more, and the client's."""
    with handoff.connection() as client:
        eventually(lambda: is_handed(handoff, client))
        eventually(lambda: not handoff.at_back_ends())
        to_service, to_client = handoff.ends_of(client)
        send(handoff.nodes["a"], forged(*to_client, [ACK, RST, RST | ACK], [1]))
        send(handoff.nodes["client"], forged(*to_service, [ACK]))
        eventually(lambda: strays(handoff) >= 3)
        for name in "ab":
            get(client, name, SIZE)


def strays(handoff: HandOff) -> int:
    """Packets of back ends that no rule was for, and that the switch dropped."""
    table = handoff.nodes["switch"].run("nft", "list", "table", "ip", "tributary-switch")
    found = re.search(r"saddr .* counter packets (\d+)", table)
    assert found is not None
    return int(found[1])
