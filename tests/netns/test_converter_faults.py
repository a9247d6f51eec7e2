"""Faults that the native converter meets while it works, on every kind of listener."""

import json
import resource
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count, islice, pairwise
from pathlib import Path

import pytest

from tests.netns.converter_clients import (
    KINDS,
    LISTENER,
    TRANSPARENT,
    TUNNELS,
    Refused,
    clog,
    convert_connect,
    convert_message,
    get,
    hears,
    joined,
    opened,
    proxy,
    read_all,
    request,
    reset,
    seconds_to_reset,
    socks_request,
    take,
    take_head,
)
from tests.netns.converter_world import (
    ALL,
    CLIENT,
    GATEWAY,
    MPTCP,
    SERVER,
    TCP,
    Converter,
    World,
    needs_tools,
    start,
)
from tests.netns.throttler_world import eventually

pytestmark = needs_tools

TIMES = '[timeouts]\nrequest = "600ms"\nconnect = "3s"\nidle = "30s"\nhalf_closed = "600ms"\n'
BUFFER = 64 << 10
CONFIG = ALL + TIMES + '[limits]\nbuffer = "64KiB"\n'
PROTOCOLS = pytest.mark.parametrize("protocol", [TCP, MPTCP], ids=["tcp", "mptcp"])
ALL_KINDS = pytest.mark.parametrize("kind", KINDS)
ALL_TUNNELS = pytest.mark.parametrize("kind", TUNNELS)
CONTENT = bytes(range(256)) * 4096


@pytest.fixture
def running(conv: World) -> Iterator[Converter]:
    with conv.converter(CONFIG) as converter:
        yield converter


@pytest.fixture
def net(conv: World, running: Converter) -> World:
    """The world with a converter in it."""
    assert running.popen.poll() is None
    return conv


def idle_descriptors(converter: Converter) -> int:
    """How many it has when it has nothing to do, once all of its threads are there."""
    eventually(lambda: len(list(Path(f"/proc/{converter.pid}/task").iterdir())) > 2)
    seen: list[int] = []
    while len(seen) < 6 or len(set(seen[-6:])) > 1:
        seen.append(converter.descriptors())
        time.sleep(0.02)
    return seen[-1]


def echo(connection: socket.socket) -> None:
    while data := connection.recv(1 << 16):
        connection.sendall(data)


def content(connection: socket.socket) -> None:
    """An HTTP server that says CONTENT and waits for the client to end."""
    while True:
        take_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(CONTENT) + CONTENT)


@PROTOCOLS
@pytest.mark.parametrize("count", [1, 1000, 200_000])
@ALL_TUNNELS
def test_bytes_behind_the_request_come_once_and_in_order(net: World, kind: str, count: int, protocol: int) -> None:
    early = (CONTENT * 2)[7 : 7 + count]
    with net.serving(echo) as service, opened(net, kind, SERVER, service.port, protocol, early=early) as client:
        client.sendall(b"later")
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == (early + b"later", "closed")


@pytest.mark.parametrize("kind", ["connect", "socks5", "convert"])
def test_bytes_behind_a_refused_request_reach_nobody(net: World, kind: str) -> None:
    with net.serving(echo) as service:
        with pytest.raises(Refused):
            opened(net, kind, GATEWAY, service.port, early=b"x" * 1000)
        assert service.peers == []


SLOW = {
    "http": b"GET http://203.0.113.2/ HTTP/1.1\r\nHost: 203.0.113.2\r\n\r\n",
    "connect": b"CONNECT 203.0.113.2:80 HTTP/1.1\r\nHost: 203.0.113.2:80\r\n\r\n",
    "socks5": b"\5\1\0" + socks_request("a-name-of-some-length.test", 80),
    "convert": convert_message(convert_connect(SERVER, 80)),
}


@PROTOCOLS
@pytest.mark.parametrize("first", [0, 10])
@pytest.mark.parametrize("kind", SLOW)
def test_request_that_trickles_in_ends_at_an_absolute_limit(net: World, kind: str, first: int, protocol: int) -> None:
    listener = {"http": "absolute"}.get(kind, kind)
    start = time.monotonic()
    with proxy(net, listener, protocol) as client:
        client.sendall(SLOW[kind][:first])
        client.settimeout(0.15)
        data, sent = b"", first
        with suppress(ConnectionError):
            while time.monotonic() - start < 5:
                try:
                    data += (more := client.recv(1000))
                    if not more:
                        break
                except TimeoutError:
                    if first:
                        client.sendall(SLOW[kind][sent : sent + 1])
                        sent += 1
    assert 0.5 < time.monotonic() - start < 2
    assert data.startswith(b"HTTP/1.1 408 ") == (kind in ("http", "connect"))
    assert b"200" not in data


def test_second_request_on_a_connection_has_its_limit_from_its_first_byte(net: World) -> None:
    with net.serving(content) as service, get(net, "absolute", service.port) as client:
        take_head(client)
        take(client, len(CONTENT))
        # Longer than a request may take: it has not begun.
        time.sleep(1)
        client.sendall(request("absolute", SERVER, service.port))
        assert take_head(client).startswith(b"HTTP/1.1 200 ")
        take(client, len(CONTENT))
        client.sendall(b"G")
        start = time.monotonic()
        assert take_head(client).startswith(b"HTTP/1.1 408 ")
        assert 0.5 < time.monotonic() - start < 2


@PROTOCOLS
@ALL_TUNNELS
def test_client_ends_first_and_the_answer_still_comes(net: World, kind: str, protocol: int) -> None:
    def answer_at_the_end(connection: socket.socket) -> None:
        heard, _ = read_all(connection)
        connection.sendall(heard + CONTENT)

    with net.serving(answer_at_the_end) as service, opened(net, kind, SERVER, service.port, protocol) as client:
        client.sendall(b"question")
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == (b"question" + CONTENT, "closed")


@PROTOCOLS
@ALL_TUNNELS
def test_server_ends_first_and_still_hears_everything(net: World, kind: str, protocol: int) -> None:
    heard: list[tuple[bytes, str]] = []

    def end_and_listen(connection: socket.socket) -> None:
        connection.sendall(b"question")
        connection.shutdown(socket.SHUT_WR)
        heard.append(read_all(connection))

    with net.serving(end_and_listen) as service, opened(net, kind, SERVER, service.port, protocol) as client:
        assert read_all(client) == (b"question", "closed")
        client.settimeout(10)
        client.sendall(CONTENT)
        client.shutdown(socket.SHUT_WR)
        eventually(lambda: heard)
    assert heard == [(CONTENT, "closed")]


@PROTOCOLS
def test_client_that_ends_behind_its_request_gets_the_response(net: World, protocol: int) -> None:
    def late(connection: socket.socket) -> None:
        take_head(connection)
        time.sleep(0.2)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(CONTENT) + CONTENT)

    with net.serving(late) as service, get(net, "absolute", service.port, protocol=protocol) as client:
        client.shutdown(socket.SHUT_WR)
        head = take_head(client)
        assert head.startswith(b"HTTP/1.1 200 ")
        assert read_all(client) == (CONTENT, "closed")


@PROTOCOLS
@pytest.mark.parametrize("who", ["client", "server"])
@ALL_TUNNELS
def test_half_closed_and_silent_connection_is_reaped(
    net: World, running: Converter, kind: str, who: str, protocol: int
) -> None:
    before = idle_descriptors(running)
    with joined(net, kind, protocol) as (client, server):
        ended, other = (client, server) if who == "client" else (server, client)
        ended.shutdown(socket.SHUT_WR)
        assert other.recv(1) == b""
        assert 0.4 < seconds_to_reset(other) < 2
        assert seconds_to_reset(ended) < 0.5
        running.wait_until_idle()
        assert running.descriptors() <= before
    eventually(lambda: [line["outcome"] for line in running.lines()] == ["silent"])


def test_open_and_silent_connection_is_not_reaped_before_its_time(net: World, running: Converter) -> None:
    with joined(net, "connect") as (client, server):
        time.sleep(1.5)
        client.sendall(b"x")
        assert server.recv(1) == b"x"
        eventually(lambda: [one["up_bytes"] for one in running.status()["connections"]] == [1])


@PROTOCOLS
@pytest.mark.parametrize("clogged", ["nothing", "up", "down"])
@pytest.mark.parametrize("who", ["client", "server"])
@ALL_KINDS
def test_reset_is_passed_on_within_a_second(
    net: World, running: Converter, kind: str, who: str, clogged: str, protocol: int
) -> None:
    before = idle_descriptors(running)
    with joined(net, kind, protocol, "up" if clogged == "up" else "down") as (client, server):
        if clogged != "nothing":
            assert clog(client if clogged == "up" else server) > BUFFER
        breaking, other = (client, server) if who == "client" else (server, client)
        reset(breaking)
        if kind == "absolute" and (who, clogged) == ("server", "up"):
            # There was no response yet, so that there can be one that says why.
            start = time.monotonic()
            assert take_head(client).startswith(b"HTTP/1.1 502 ")
            assert time.monotonic() - start < 1
        else:
            assert seconds_to_reset(other) < 1
        running.wait_until_idle(3)
        eventually(lambda: running.descriptors() <= before)
    assert running.status()["buffered_bytes"] == 0


@pytest.mark.parametrize("way", ["down", "up"])
@ALL_KINDS
def test_stalled_reader_holds_no_more_than_its_buffer(net: World, running: Converter, kind: str, way: str) -> None:
    resident = running.resident()
    with ExitStack() as stack:
        pairs = [stack.enter_context(joined(net, kind, TCP, way)) for _ in range(8)]
        writers = [client if way == "up" else server for client, server in pairs]
        pushed = sum(clog(writer, 0.05) for writer in writers)
        assert pushed > 8 * (1 << 20)
        held = running.status()["buffered_bytes"]
        assert 0 < held <= 8 * BUFFER
        assert running.resident() - resident < 8 * BUFFER + (4 << 20)
        busy = running.cpu_seconds()
        time.sleep(0.3)
        assert running.cpu_seconds() - busy < 0.05
    running.wait_until_idle()
    assert running.status()["buffered_bytes"] == 0


def all_clogged(converter: Converter) -> bool:
    """Whether nothing has moved for a while."""
    before = converter.status()
    time.sleep(0.2)
    after = converter.status()
    return [one["down_bytes"] for one in before["connections"]] == [one["down_bytes"] for one in after["connections"]]


def test_when_slow_readers_hold_all_memory_new_work_is_refused_and_old_work_ends_whole(conv: World) -> None:
    config = ALL + TIMES + '[limits]\nbuffer = "64KiB"\nbuffered = "16KiB"\n'
    size, begin = 64 << 20, threading.Event()

    def push(connection: socket.socket) -> None:
        begin.wait(10)
        connection.sendall(bytes(size))

    with conv.converter(config) as converter, conv.serving(push) as service, ExitStack() as stack:
        clients = [stack.enter_context(opened(conv, kind, SERVER, service.port)) for kind in TUNNELS[:3] * 3]
        begin.set()
        eventually(lambda: all_clogged(converter))
        assert 16 << 10 <= converter.status()["buffered_bytes"] <= len(clients) * BUFFER
        heard = {kind: hears(conv, kind, SERVER, service.port) for kind in KINDS}
        assert heard == {
            "connect": "503",
            "absolute": "503",
            "socks5": "socks method 0xff",
            "convert": "convert 64",
            "tproxy": "reset",
            "redirect": "reset",
        }
        assert converter.outcomes("socks5")["buffers-full"] == 1
        for client in clients:
            data, ended = read_all(client)
            assert (len(data), ended) == (size, "closed"), converter.lines()
        converter.wait_until_idle()
        with opened(conv, "connect", SERVER, service.port) as client:
            assert len(read_all(client)[0]) == size


def leave_files(converter: Converter, free: int) -> None:
    """Let the converter open so many descriptors more, and no other."""
    idle_descriptors(converter)
    taken = {int(entry.name) for entry in Path(f"/proc/{converter.pid}/fd").iterdir()}
    most = resource.prlimit(converter.pid, resource.RLIMIT_NOFILE)[1]
    unused = (number for number in count() if number not in taken)
    resource.prlimit(converter.pid, resource.RLIMIT_NOFILE, (next(islice(unused, free, None)), most))


def greet(connection: socket.socket) -> None:
    connection.sendall(b"hello")
    connection.recv(1)


SERVED = {"absolute": "200"} | dict.fromkeys(TUNNELS, "hello")


@ALL_KINDS
def test_out_of_descriptors_accepting_pauses_without_spinning_and_recovers(conv: World, kind: str) -> None:
    conv.intercept(kind if kind in TRANSPARENT else "")
    heard: list[str] = []
    with (
        conv.converter(ALL + TIMES) as converter,
        conv.serving(echo) as echoing,
        conv.serving(content if kind == "absolute" else greet) as service,
        joined_by(conv, echoing.port) as old,
    ):
        waiting = [
            threading.Thread(target=lambda: heard.append(hears(conv, kind, SERVER, service.port))) for _ in range(4)
        ]
        leave_files(converter, 0)
        for client in waiting:
            client.start()
        time.sleep(0.2)
        before = converter.cpu_seconds()
        time.sleep(0.5)
        assert converter.cpu_seconds() - before < 0.1
        old.sendall(b"still here")
        with suppress(Refused):
            assert take(old, 10) == b"still here"
            old.settimeout(10)
        assert converter.lines() == []
        assert heard == []
        leave_files(converter, 1000)
        for client in waiting:
            client.join(10)
        assert heard == [SERVED[kind]] * 4
        assert converter.metrics()["tributary_converter_accept_pauses_total"] >= 2


@contextmanager
def joined_by(world: World, port: int) -> Iterator[socket.socket]:
    """A connection that stands, and whose first byte has gone through."""
    with opened(world, "connect", SERVER, port) as client:
        client.sendall(b"x")
        assert take(client, 1) == b"x"
        yield client


EXHAUSTED = {"socks5": "socks 1", "convert": "convert 64", "tproxy": "reset", "redirect": "reset"}


@ALL_KINDS
def test_without_a_descriptor_for_the_server_the_client_is_told(conv: World, kind: str) -> None:
    with conv.converter(ALL + TIMES) as converter, conv.serving(content if kind == "absolute" else greet) as service:
        assert hears(conv, kind, SERVER, service.port) == SERVED[kind]
        converter.wait_until_idle()
        leave_files(converter, 1)
        assert hears(conv, kind, SERVER, service.port) == EXHAUSTED.get(kind, "503")
        leave_files(converter, 1000)
        assert converter.outcomes(LISTENER[kind])["exhausted"] == 1
        assert hears(conv, kind, SERVER, service.port) == SERVED[kind]


@ALL_KINDS
def test_without_a_port_the_client_is_told_and_old_work_goes_on(net: World, kind: str) -> None:
    with net.serving(echo) as service, ExitStack() as stack:
        net.gateway.sysctl(net__ipv4__ip_local_port_range="40000 40003")
        stack.callback(net.gateway.sysctl, net__ipv4__ip_local_port_range="32768 60999")
        old = [stack.enter_context(joined_by(net, service.port)) for _ in range(4)]
        assert hears(net, kind, SERVER, service.port) == EXHAUSTED.get(kind, "503")
        for client in old:
            client.sendall(b"still here")
            assert take(client, 10) == b"still here"
        # A reset leaves no port behind in TIME-WAIT.
        reset(old[0])
        with eventually(lambda: admitted(net, service.port)) as client:
            client.sendall(b"y")
            assert take(client, 1) == b"y"


def admitted(world: World, port: int) -> socket.socket | None:
    """A connection through the converter, if there is one to be had."""
    with suppress(Refused):
        return opened(world, "connect", SERVER, port)
    return None


@contextmanager
def two_links(world: World, rate: str = "50mbit") -> Iterator[None]:
    """Both access links at this rate each way, and the client joining over wireless."""
    shaped = [(node, link) for node in (world.client, world.gateway) for link in ("wired", "wireless")]
    with ExitStack() as stack:
        for node, link in shaped:
            node.run(*f"tc qdisc add dev {link} root tbf rate {rate} burst 15140b limit 150000b".split())
            stack.callback(node.run, *f"tc qdisc del dev {link} root".split())
        world.client.ip("mptcp", "endpoint", "add", "10.0.2.2", "dev", "wireless", "subflow")
        stack.callback(world.client.ip, "mptcp", "endpoint", "flush")
        yield


def received(world: World, link: str) -> int:
    """Bytes that came to the client over the link."""
    text = world.client.run("cat", f"/sys/class/net/{link}/statistics/rx_bytes")
    return int(text)


CUT = """table netdev cut {{
    chain in {{ type filter hook ingress device {0} priority 0; drop; }}
    chain out {{ type filter hook egress device {0} priority 0; drop; }}
}}"""


@pytest.mark.parametrize(
    ("kind", "cut"),
    [("connect", "wireless"), *((kind, "wired") for kind in KINDS if kind not in TRANSPARENT)],
)
def test_transfer_outlives_a_cut_link_and_uses_it_again(net: World, running: Converter, kind: str, cut: str) -> None:
    """Half a minute's silence would be whole as well: what counts is that no second passes without a byte."""
    size, progress = 40 << 20, [(0.0, 0)]
    block = bytes(range(256)) * 256

    def push(connection: socket.socket) -> None:
        take_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size // len(block)):
            connection.sendall(block)

    def pull(client: socket.socket) -> None:
        got = 0
        while got < size and (data := client.recv(1 << 16)):
            start = got % 256
            assert data == (block + block)[start : start + len(data)]
            got += len(data)
            progress.append((time.monotonic(), got))

    address = {"wired": CLIENT, "wireless": "10.0.2.2"}[cut]
    with two_links(net), net.serving(push) as service, get(net, kind, service.port, protocol=MPTCP) as client:
        take_head(client)
        puller = threading.Thread(target=pull, args=(client,))
        puller.start()
        other = {"wired": "wireless", "wireless": "wired"}[cut]
        used = received(net, "wireless")
        eventually(lambda: received(net, "wireless") > used + (1 << 20))
        net.nft(CUT.format(cut))
        at = time.monotonic()
        try:
            eventually(lambda: progress[-1][0] > at + 0.7)
            # The kernel's path manager goes by addresses: a link monitor takes that of a dead link away.
            identity = "0" if cut == "wired" else endpoint(net, address)
            net.client.ip("mptcp", "endpoint", "delete", "id", identity, *([address] if cut == "wired" else []))
            used = received(net, other)
            eventually(lambda: received(net, other) > used + (1 << 20))
        finally:
            net.nft("delete table netdev cut")
        net.client.ip("mptcp", "endpoint", "add", address, "dev", cut, "subflow")
        used = received(net, cut)
        eventually(lambda: received(net, cut) > used + (1 << 20))
        puller.join(30)
    assert progress[-1][1] == size
    gaps = [after[0] - before[0] for before, after in pairwise(progress[1:])]
    assert max(gaps) < 1
    eventually(lambda: running.lines() and running.lines()[-1]["down_bytes"] >= size)
    # Of a request among others the line has no paths.
    if kind != "absolute":
        assert {path["client"] for path in running.lines()[-1]["paths"]} == {CLIENT, "10.0.2.2"}


def endpoint(world: World, address: str) -> str:
    """The id of an MPTCP endpoint of the client's."""
    lines = world.client.ip("mptcp", "endpoint", "show").splitlines()
    return next(line.split()[2] for line in lines if line.split()[0] == address)


def test_killed_converter_is_replaced_at_once_and_its_clients_know(conv: World) -> None:
    with conv.converter(CONFIG) as first, joined(conv, "connect", MPTCP) as (client, server):
        clog(server)
        first.popen.send_signal(signal.SIGKILL)
        first.popen.wait()
        # Its control socket and its connections' ports are still there.
        assert (first.directory / "control").is_socket()
        second = start(conv.gateway, first.directory, CONFIG)
        try:
            eventually(lambda: second.popen.poll() is not None or "listening" in second.log.partition("redirect")[2])
            eventually(lambda: second.status()["pid"] == second.pid)
            with conv.serving(greet) as service:
                heard = {kind: hears(conv, kind, SERVER, service.port, MPTCP) for kind in TUNNELS}
            assert set(heard.values()) == {"hello"}
            assert seconds_to_reset(server) < 1
            assert read_all(client)[1] in ("closed", "reset")
        finally:
            second.popen.terminate()
            assert second.popen.wait(10) == 0
        # The block's end looks at the first one, which was killed.
        first.popen.returncode = 0


def test_full_disk_costs_lines_and_nothing_else(conv: World) -> None:
    with tempfile.TemporaryDirectory(dir=conv.directory) as disk:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "log", disk], check=True)
        try:
            config = f'[log]\naccess = "{disk}/access"\n' + ALL + TIMES
            with conv.converter(config) as converter, conv.serving(content) as service:
                for _ in range(200):
                    assert hears(conv, "connect", GATEWAY, service.port) == "403"
                eventually(lambda: "lines are lost" in converter.log)
                for _ in range(50):
                    assert hears(conv, "absolute", SERVER, service.port) == "200"
                assert converter.log.count("lines are lost") == 1
                assert converter.status()["log_lines_dropped"] > 0
                # The disk has room again, and the log begins a new file.
                Path(disk, "access").unlink()
                converter.reload(config)
                # As soon as the old file's last writer has closed it.
                eventually(lambda: hears(conv, "connect", GATEWAY, 999) and "999" in Path(disk, "access").read_text())
                assert all(json.loads(line) for line in Path(disk, "access").read_text().splitlines())
        finally:
            subprocess.run(["umount", disk], check=True)
