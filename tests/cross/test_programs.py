"""The Rust programs built for the other processor, and run here by QEMU's user mode: no package of them ever was.

The builds take some minutes whenever their sources have changed: scripts/test tests/cross.
"""

import platform
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from debs import checkout, elf, program
from debs.release import ARCHITECTURES
from tests.netns.world import needs
from tributary.paths import CACHE

OTHER = next(each for each in ARCHITECTURES.values() if each.machine != platform.machine())
QEMU = f"qemu-{OTHER.machine}-static"

pytestmark = [
    needs(QEMU, "mmdebstrap"),
    pytest.mark.timeout(2400),
]

SETTINGS = """\
[targets]
allow = ["{own}/32"]
[[listen]]
name = "web"
kind = "http"
address = "127.0.0.1:{port}"
"""


class Origin(BaseHTTPRequestHandler):
    """A server that says where it was asked."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.path)))
        self.end_headers()
        self.wfile.write(self.path.encode())


@pytest.fixture(scope="module")
def converter() -> Path:
    return program.make(program.CONVERTER, OTHER, checkout.tracked(), CACHE / "packages")["tributary-converter"]


@pytest.fixture
def own() -> str:
    """An address of this machine's: loopback can be opened by nobody."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))  # no packet leaves
        except OSError:
            pytest.skip("no network")
        return str(asking.getsockname()[0])


@pytest.fixture
def origin(own: str) -> Iterator[int]:
    with HTTPServer((own, 0), Origin) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_it_is_static_and_for_the_other_processor(converter: Path) -> None:
    assert elf.needs(converter.read_bytes()) == elf.Needs(OTHER.elf, interpreter=False, glibc=None)


def test_it_tells_of_itself(converter: Path) -> None:
    said = subprocess.run([QEMU, converter, "--help"], capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout.startswith("Ends Multipath TCP (RFC 8684) on the clients' side")


def test_it_relays_a_request(converter: Path, own: str, origin: int, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = tmp_path / "converter.toml"
    settings.write_text(SETTINGS.format(port=port, own=own))
    command = [QEMU, str(converter), "--config", str(settings)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None  # for mypy
            assert running.stdout.readline() == "ready\n"
            client = HTTPConnection("127.0.0.1", port, timeout=60)
            client.request("GET", f"http://{own}:{origin}/asked-through-it")
            answer = client.getresponse()
            assert (answer.status, answer.read()) == (200, b"/asked-through-it")
        finally:
            running.terminate()


@pytest.mark.parametrize("programs", [program.HANDOFF, program.OVERLAY], ids=lambda programs: programs.names[0])
def test_the_other_programs_are_static_and_tell_of_themselves(programs: program.Programs) -> None:
    for name, path in program.make(programs, OTHER, checkout.tracked(), CACHE / "packages").items():
        assert elf.needs(path.read_bytes()) == elf.Needs(OTHER.elf, interpreter=False, glibc=None)
        said = subprocess.run([QEMU, path, "--version"], capture_output=True, text=True, check=True, timeout=60)
        assert said.stdout.startswith(f"{name} ")
