import fcntl
import json
import os
import pty
import re
import select
import socket
import struct
import subprocess
import termios
import threading
from contextlib import ExitStack

import pytest

from experiments.testbed.usage import counters
from tests import converter_metrics
from tests.netns.connections import MPTCP, TCP, read_all, take, take_head
from tests.netns.converter_process import METRICS, SERVER, program, run
from tests.netns.converter_services import answer, content, echo, greet, stream
from tests.netns.converter_world import ALL, GATEWAY, PORTS, TIMES, World
from tests.netns.world import eventually, small_disk


def test_status_shows_listeners_and_connections(conv: World) -> None:
    with conv.converter(ALL) as converter, conv.joined("socks5", MPTCP) as (client, server):
        client.sendall(b"x" * 1000)
        take(server, 1000)
        server.sendall(b"y" * 2000)
        take(client, 2000)
        socket_of = str(converter.directory / "control")
        status = json.loads(run("status", "--json", "--socket", socket_of).stdout)
        (seen,) = status["connections"]
        port = server.getsockname()[1]
        assert (seen["listener"], seen["target"]) == ("socks5", f"{SERVER}:{port}")
        assert (seen["up_bytes"], seen["down_bytes"]) == (1000, 2000)
        assert {one["name"]: one["mptcp"] for one in status["listeners"]} == {
            name: name != "redirect" for name in PORTS
        }
        text = run("status", "--socket", socket_of).stdout
        assert "serving, 1 of " in text
        assert f"{SERVER}:{port}" in text
        mode = (converter.directory / "control").stat().st_mode
        assert mode & 0o077 == 0


def test_top_shows_rates_in_a_terminal_until_the_converter_ends(conv: World) -> None:
    with conv.converter(ALL) as converter, conv.serving(stream(64 << 20)) as service:
        with conv.opened("connect", SERVER, service.port) as client:
            reader = threading.Thread(target=read_all, args=(client, 20))
            reader.start()
            master, slave = pty.openpty()
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
            command = [program(), "top", "--socket", str(converter.directory / "control")]
            with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave) as top:
                os.close(slave)
                shown = ""
                while "Mbit" not in shown and "Gbit" not in shown:
                    assert select.select([master], [], [], 10)[0], shown
                    shown += os.read(master, 65536).decode()
                assert f"{SERVER}:{service.port}" in shown
                assert "DOWN/s" in shown
                converter.popen.kill()
                assert top.wait(10) == 69
            os.close(master)
            reader.join(10)
        converter.ends(-9)


def test_metrics_come_by_http_and_add_up(conv: World) -> None:
    with conv.converter(ALL + '[paths]\nwired = ["10.0.1.0/24"]\n') as converter:
        with conv.serving(echo) as service, conv.opened("connect", SERVER, service.port, MPTCP) as client:
            client.sendall(b"x" * 5000)
            take(client, 5000)
        converter.wait_until_idle()
        url = f"http://127.0.0.1:{METRICS}/metrics"
        text = conv.gateway.run("curl", "-sS", "-m", "5", "-i", url)
        head, _, body = text.partition("\n\n")
        assert head.startswith("HTTP/1.1 200 OK")
        assert "application/openmetrics-text" in head
        assert body.rstrip().endswith("# EOF")
        found = converter.metrics()
        listed = converter_metrics.listed()
        for name, _, labels in (sample.partition("{") for sample in found):
            assert listed[name] == set(re.findall(r'(\w+)="', labels))
        for direction in ("up", "down"):
            assert found[f'tributary_converter_relayed_bytes_total{{listener="http",direction="{direction}"}}'] == 5000
        assert found['tributary_converter_connections_total{listener="http"}'] == 1
        assert found['tributary_converter_outcomes_total{listener="http",outcome="ok"}'] == 1
        assert found["tributary_converter_mptcp_sessions_total"] == 1
        assert found["tributary_converter_open_connections"] == 0
        assert found["tributary_converter_dial_seconds_count"] == 1
        missing = conv.gateway.run("curl", "-sS", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}", url + "x")
        assert missing == "404"


def test_idle_connections_to_its_metrics_and_status_take_nothing_from_clients(conv: World) -> None:
    with conv.converter(ALL) as converter, conv.serving(greet) as service, ExitStack() as stack:
        before = converter.idle_descriptors()
        for _ in range(300):
            stack.enter_context(conv.connect("127.0.0.1", METRICS, node=conv.gateway))
        assert converter.metrics()["tributary_converter_open_connections"] == 0
        for _ in range(300):
            asking = stack.enter_context(socket.socket(socket.AF_UNIX))
            asking.connect(str(converter.directory / "control"))
        # Those that were accepted in one go are there until the oldest have gone.
        eventually(lambda: converter.descriptors() <= before + 2 * 32)
        assert converter.status()["pid"] == converter.pid
        assert conv.hears("connect", SERVER, service.port) == "hello"


def test_the_kernels_counters_are_those_of_the_converters_namespace(conv: World) -> None:
    with conv.converter(ALL) as converter:
        counted = counters(conv.gateway)
        told, found = converter.status()["kernel_mptcp"], converter.metrics()
        for name, exported in (
            ("DSSNotMatching", "dss_not_matching"),
            ("DataCsumErr", "data_checksum_errors"),
            ("MPTCPRetrans", "retransmissions"),
        ):
            assert counted[f"MPTcpExt{name}"] == told[exported]
            assert counted[f"MPTcpExt{name}"] == found[f"tributary_converter_kernel_mptcp_{exported}_total"]


# --- The access log ---


def test_access_log_has_one_object_a_line_and_paths_of_multipath_clients(conv: World) -> None:
    with conv.converter(ALL + '[paths]\nwired = ["10.0.1.0/24"]\n') as converter, conv.serving(answer) as service:
        for protocol in (TCP, MPTCP):
            with conv.get("socks5", service.port, protocol) as client:
                take_head(client)
            converter.wait_until_idle()
        eventually(lambda: len(converter.lines()) == 2)
        plain, multi = converter.lines()
        assert "paths" not in plain
        assert [path["path"] for path in multi["paths"]] == ["wired"]
        assert plain["client"].startswith("10.0.1.2:")
        assert plain["server"] == plain["target"] == f"{SERVER}:{service.port}"
        converter.write(ALL)
        (converter.directory / "access").rename(converter.directory / "rotated")
        converter.reload(ALL)
        assert conv.hears("connect", GATEWAY, 1) == "403"
        eventually(lambda: len(converter.lines()) == 1)


@pytest.mark.parametrize("first", ["client", "server"])
def test_bytes_by_path_are_told_whoever_ends_first(conv: World, first: str) -> None:
    size, asked = 4 << 20, b"all of it"

    def serve(connection: socket.socket) -> None:
        assert take(connection, len(asked)) == asked
        connection.sendall(bytes(size))
        if first == "client":
            connection.recv(1)

    with conv.converter(ALL) as converter, conv.serving(serve) as service:
        for _ in range(5):
            with conv.opened("connect", SERVER, service.port, MPTCP) as client:
                client.sendall(asked)
                take(client, size)
                if first == "client":
                    client.shutdown(socket.SHUT_WR)
                assert read_all(client) == (b"", "closed")
        eventually(lambda: len(converter.lines()) == 5)
        for line in converter.lines():
            (path,) = line["paths"]
            assert path["down_bytes"] >= size
            assert path["up_bytes"] > len(asked)


def test_full_disk_costs_lines_and_nothing_else(conv: World) -> None:
    with small_disk(conv.directory / "disk", "16k") as disk:
        file = disk / "access"
        config = f'[log]\naccess = "{file}"\n' + ALL + TIMES
        with conv.converter(config) as converter, conv.serving(content) as service:
            for _ in range(200):
                assert conv.hears("connect", GATEWAY, service.port) == "403"
            eventually(lambda: "lines are lost" in converter.log)
            for _ in range(50):
                assert conv.hears("absolute", SERVER, service.port) == "200"
            assert converter.log.count("lines are lost") == 1
            assert converter.status()["log_lines_dropped"] > 0
            # The disk has room again, and the log begins a new file.
            file.unlink()
            converter.reload(config)
            # As soon as the old file's last writer has closed it.
            eventually(lambda: conv.hears("connect", GATEWAY, 999) and "999" in file.read_text())
            assert all(json.loads(line) for line in file.read_text().splitlines())
