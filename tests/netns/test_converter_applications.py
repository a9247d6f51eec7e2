"""Applications over the native converter, as people run them."""

import base64
import hashlib
import http.server
import random
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.netns.connections import meanwhile, read_all, take, take_head
from tests.netns.converter_clients import ALL_KINDS, PROTOCOLS, TUNNELS_IN_TURN, request
from tests.netns.converter_process import SERVER, Converter
from tests.netns.converter_services import CONTENT
from tests.netns.converter_world import ALL, GATEWAY, GATEWAY6, PORTS, SERVER6, World
from tests.netns.world import eventually, needs

CONFIG = ALL
NAME = "origin.test"
PROXY = f"http://{GATEWAY}:{PORTS['http']}"


@pytest.fixture
def net(net: World) -> World:
    net.names.records[NAME] = [SERVER, SERVER6]
    return net


@pytest.fixture(scope="module")
def certificate(conv_built: World) -> Path:
    """Of the server's name and address, and its key, in one file."""
    file = conv_built.directory / "server.pem"
    names = f"subjectAltName=DNS:{NAME},IP:{SERVER},IP:{SERVER6}"
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-keyout", str(file)]
    made = ["openssl", "req", "-x509", *key, "-days", "2", "-subj", f"/CN={NAME}", "-addext", names]
    text = subprocess.run([*made, "-out", "-"], capture_output=True, text=True, check=True).stdout
    file.write_text(file.read_text() + text)
    return file


class Files(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, quietly and over connections that are kept."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def web(world: World, folder: Path, certificate: Path | None = None) -> Iterator[int]:
    def handler(*arguments: Any) -> Files:
        return Files(*arguments, directory=str(folder))

    with world.server.entered():
        server = http.server.ThreadingHTTPServer(("::", 0), handler, bind_and_activate=False)
        server.socket = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    server.server_name, server.server_port = NAME, server.socket.getsockname()[1]
    port = server.server_port
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield port
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With one file that is large enough to be relayed in many pieces."""
    (tmp_path / "file").write_bytes(CONTENT)
    return tmp_path


def at_client(world: World, *command: str, **environment: str) -> bytes:
    """What a command prints at the client."""
    whole = world.client.command(["env", *(f"{key}={value}" for key, value in environment.items()), *command])
    done = subprocess.run(whole, capture_output=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


CURL = ["curl", "-sS", "-m", "20", "--fail"]
WAYS = {
    "http": ["-x", PROXY],
    "http-by-ipv6": ["-x", f"http://[{GATEWAY6}]:{PORTS['http']}"],
    "connect": ["-x", PROXY, "--proxytunnel"],
    "socks5": ["--socks5", f"{GATEWAY}:{PORTS['socks5']}"],
    "socks5-hostname": ["--socks5-hostname", f"{GATEWAY}:{PORTS['socks5']}"],
}


# With --socks5 curl would ask the client's own name servers.
@pytest.mark.parametrize(
    ("way", "host"),
    [(way, host) for way in WAYS for host in (SERVER, f"[{SERVER6}]", NAME) if (way, host) != ("socks5", NAME)],
)
def test_curl_gets_a_file(net: World, folder: Path, way: str, host: str) -> None:
    with web(net, folder) as port:
        assert at_client(net, *CURL, *WAYS[way], f"http://{host}:{port}/file") == CONTENT


@pytest.mark.parametrize("host", [SERVER, NAME])
@pytest.mark.parametrize("way", ["http", "socks5-hostname"])
def test_curl_gets_a_file_over_tls_and_trusts_the_server_alone(
    net: World, folder: Path, certificate: Path, way: str, host: str
) -> None:
    with web(net, folder, certificate) as port:
        url = f"https://{host}:{port}/file"
        assert at_client(net, *CURL, *WAYS[way], "--cacert", str(certificate), url) == CONTENT


@needs("mptcpize")
@pytest.mark.smoke
def test_curl_gets_a_file_over_mptcp(net: World, running: Converter, folder: Path) -> None:
    with web(net, folder) as port:
        assert at_client(net, "mptcpize", "run", *CURL, "-x", PROXY, f"http://{SERVER}:{port}/file") == CONTENT
        running.wait_until_idle()
        assert running.metrics()["tributary_converter_mptcp_sessions_total"] > 0


def test_wget_gets_a_file(net: World, folder: Path) -> None:
    with web(net, folder) as port:
        url = f"http://{NAME}:{port}/file"
        assert at_client(net, "wget", "-q", "-T", "20", "-t", "1", "-O", "-", url, http_proxy=PROXY) == CONTENT


@pytest.mark.parametrize("way", ["http", "https", "socks5h"])
def test_git_clones_a_repository(net: World, tmp_path: Path, certificate: Path, way: str) -> None:
    bare, tree = tmp_path / "served" / "it.git", tmp_path / "tree"

    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], check=True)

    git("init", "-q", "-b", "main", str(tree))
    (tree / "file").write_bytes(random.Random(1).randbytes(3 << 20))
    git("-C", str(tree), "add", "file")
    git("-C", str(tree), "commit", "-q", "-m", "first")
    git("clone", "-q", "--bare", str(tree), str(bare))
    git("-C", str(bare), "update-server-info")
    with web(net, bare.parent, certificate if way == "https" else None) as port:
        scheme = "https" if way == "https" else "http"
        through = f"socks5h://{GATEWAY}:{PORTS['socks5']}" if way == "socks5h" else PROXY
        command = ["git", "-c", f"http.proxy={through}", "clone", "-q", f"{scheme}://{NAME}:{port}/it.git"]
        at_client(net, *command, str(tmp_path / "clone"), GIT_TERMINAL_PROMPT="0", GIT_SSL_CAINFO=str(certificate))
    assert (tmp_path / "clone" / "file").read_bytes() == (tree / "file").read_bytes()


def frame(data: bytes, mask: bytes = b"") -> bytes:
    """One binary frame (RFC 6455 section 5.2)."""
    head = b"\x82" + bytes([126 | (128 if mask else 0)]) + len(data).to_bytes(2, "big") + mask
    return head + (bytes(byte ^ mask[at % 4] for at, byte in enumerate(data)) if mask else data)


def unframed(connection: socket.socket) -> bytes:
    """The content of the next frame."""
    head = take(connection, 4)
    mask = take(connection, 4) if head[1] & 128 else bytes(4)
    data = take(connection, int.from_bytes(head[2:4], "big"))
    return bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))


def websocket(connection: socket.socket) -> None:
    """A server that sends a frame at once, and then each one back."""
    head = take_head(connection).decode()
    key = head.partition("Sec-WebSocket-Key: ")[2].partition("\r\n")[0]
    digest = hashlib.sha1(key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
    accept = base64.b64encode(digest).decode()
    answer = (
        f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept}\r\n\r\n"
    )
    connection.sendall(answer.encode() + frame(b"welcome"))
    while True:
        connection.sendall(frame(unframed(connection)))


@PROTOCOLS
@ALL_KINDS
def test_websocket_is_opened_and_carries_frames_both_ways(net: World, kind: str, protocol: int) -> None:
    key = base64.b64encode(bytes(range(16))).decode()
    fields = f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
    with net.serving(websocket) as service, net.opened(kind, SERVER, service.port, protocol) as client:
        client.sendall(request(kind, SERVER, service.port, "/chat", "GET", fields) + frame(b"early", b"abcd"))
        head = take_head(client).decode().lower()
        assert head.startswith("http/1.1 101 ")
        assert "sec-websocket-accept: " in head
        assert unframed(client) == b"welcome"
        assert unframed(client) == b"early"
        for size in (0, 1, 125, 65535):
            client.sendall(frame(CONTENT[:size], b"wxyz"))
            assert unframed(client) == CONTENT[:size]


@TUNNELS_IN_TURN
def test_stream_both_ways_at_once_is_whole(net: World, kind: str, protocol: int) -> None:
    """As SSH does: small and large pieces at any time, in both directions."""
    size, digests = 8 << 20, {}

    def talk(connection: socket.socket, seed: int) -> None:
        source, data = random.Random(seed), random.Random(seed).randbytes(size)
        at = 0
        while at < size:
            step = source.choice([1, 36, 1448, 4096, 200_000])
            connection.sendall(data[at : at + step])
            at += step
        connection.shutdown(socket.SHUT_WR)

    def both(connection: socket.socket, seed: int) -> None:
        with meanwhile(talk, connection, seed):
            digests[seed] = read_all(connection, 20)

    with net.serving(lambda one: both(one, 2)) as service, net.opened(kind, SERVER, service.port, protocol) as client:
        both(client, 1)
        eventually(lambda: 2 in digests)
    for seed, other in ((1, 2), (2, 1)):
        assert digests[seed] == (random.Random(other).randbytes(size), "closed")
