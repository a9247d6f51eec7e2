"""What the native converter tells of itself: its status, the terminal's view of it, and its metrics."""

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

from experiments.testbed.counters import counters
from tests import converter_metrics
from tests.netns.converter_clients import hears, joined, opened, read_all, take
from tests.netns.converter_services import echo, greet, stream
from tests.netns.converter_world import ALL, METRICS, MPTCP, PORTS, SERVER, World, needs_tools, program, run

pytestmark = needs_tools


def test_status_shows_listeners_and_connections(conv: World) -> None:
    with conv.converter(ALL) as converter, joined(conv, "socks5", MPTCP) as (client, server):
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
        with opened(conv, "connect", SERVER, service.port) as client:
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
        converter.popen.wait()
        converter.popen.returncode = 0


def test_control_socket_withstands_who_asks_and_never_reads(conv: World) -> None:
    with conv.converter(ALL) as converter, ExitStack() as stack:
        for _ in range(50):
            asking = stack.enter_context(socket.socket(socket.AF_UNIX))
            asking.connect(str(converter.directory / "control"))
        assert converter.status()["pid"] == converter.pid


def test_metrics_come_by_http_and_add_up(conv: World) -> None:
    with conv.converter(ALL + '[paths]\nwired = ["10.0.1.0/24"]\n') as converter:
        with conv.serving(echo) as service, opened(conv, "connect", SERVER, service.port, MPTCP) as client:
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
        with conv.gateway.entered():
            for _ in range(300):
                stack.enter_context(socket.create_connection(("127.0.0.1", METRICS), timeout=5))
        assert converter.metrics()["tributary_converter_open_connections"] == 0
        for _ in range(300):
            asking = stack.enter_context(socket.socket(socket.AF_UNIX))
            asking.connect(str(converter.directory / "control"))
            # Those that it accepts and closes at once are among them.
            assert converter.descriptors() < before + 2 * 32 + 50
        assert converter.status()["pid"] == converter.pid
        assert hears(conv, "connect", SERVER, service.port) == "hello"


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
