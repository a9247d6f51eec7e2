"""The native converter's access log."""

import json
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.netns.converter_clients import hears, opened, read_all, request, take, take_head
from tests.netns.converter_services import answer, content
from tests.netns.converter_short_timeouts import TIMES
from tests.netns.converter_world import ALL, GATEWAY, MPTCP, SERVER, TCP, World, needs_tools
from tests.netns.world import eventually

pytestmark = needs_tools


def test_access_log_has_one_object_a_line_and_paths_of_multipath_clients(conv: World) -> None:
    with conv.converter(ALL + '[paths]\nwired = ["10.0.1.0/24"]\n') as converter, conv.serving(answer) as service:
        for number, protocol in enumerate((TCP, MPTCP), start=1):
            with opened(conv, "socks5", SERVER, service.port, protocol) as client:
                client.sendall(request("socks5", SERVER, service.port))
                take_head(client)
            eventually(lambda number=number: len(converter.lines()) == number)  # type: ignore[misc]
        plain, multi = converter.lines()
        assert "paths" not in plain
        assert [path["path"] for path in multi["paths"]] == ["wired"]
        assert plain["client"].startswith("10.0.1.2:")
        assert plain["server"] == plain["target"] == f"{SERVER}:{service.port}"
        converter.write(ALL)
        (converter.directory / "access").rename(converter.directory / "rotated")
        converter.reload(ALL)
        assert hears(conv, "connect", GATEWAY, 1) == "403"
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
        for number in range(5):
            with opened(conv, "connect", SERVER, service.port, MPTCP) as client:
                client.sendall(asked)
                take(client, size)
                if first == "client":
                    client.shutdown(socket.SHUT_WR)
                assert read_all(client) == (b"", "closed")
            eventually(lambda number=number: len(converter.lines()) == number + 1)  # type: ignore[misc]
            (path,) = converter.lines()[-1]["paths"]
            assert path["down_bytes"] >= size
            assert path["up_bytes"] > len(asked)


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
