"""Who is compared, and how each is started: mostly with an MPTCP listener, and otherwise as Debian's defaults have it.

Under mptcpize a program's connections to the origin offer MPTCP as well. The origin listens by TCP alone and does not
take the offer (RFC 8684 section 3.7): what stays is the little that a fallen-back MPTCP socket costs.
"""

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.bench.parts import DIRECT, HAPROXY_HTTP, NATIVE, TUNNEL
from experiments.testbed.cables import CLIENTS, LISTENER, MPTCP_ORIGIN, ORIGIN, SERVER, Cabling
from experiments.testbed.node import Node, Process
from tributary.settings.errors import CommandError, Exit

Route = tuple[str, ...]
"""Arguments of tributary-load that say how it gets to the origin."""

_DIRECT: Route = ("--to", MPTCP_ORIGIN)
"""Without any converter: MPTCP to the origin, through the gateway as a router."""

_MPTCPIZE = ["mptcpize", "run"]
_VARNISH = Path("/var/lib/varnish/tributary-bench")
"""Varnish compiles its configuration to a library in there, which /run may not allow (noexec)."""

_SQUID = """\
port = {port}
listen = ["{listen}"]
client_networks = ["{clients}"]
connect_ports = [{origin_port}]
drain = "0s"
state_directory = "{state}"
"""
_NATIVE = """\
[clients]
networks = ["{clients}"]
[targets]
allow = ["10.0.0.0/8", "203.0.113.0/24"]
[limits]
connections_per_client = 20000
[control]
socket = "{directory}/converter-{port}.sock"
[[listen]]
kind = "http"
address = "{listen}"
"""
HAPROXY = """\
defaults
    mode tcp
    timeout connect 10s
    timeout client 1h
    timeout server 1h
listen bench
    bind {listen}
    server origin {origin}
"""
"""What it reads; ``listen`` and ``origin`` are addresses with their ports."""
_HAPROXY_HTTP = """\
defaults
    mode http
    timeout connect 10s
    timeout client 1h
    timeout server 1h
    http-reuse safe
listen bench
    bind {listen}
    server origin {origin}
"""
_NGINX = """\
load_module {module};
daemon off;
user root;
pid {directory}/nginx-stream.pid;
error_log stderr error;
worker_processes auto;
events {{ worker_connections 16384; }}
stream {{
    server {{
        listen {listen};
        proxy_pass {origin};
        proxy_timeout 1h;
    }}
}}
"""
_NGINX_MODULE = Path("/usr/lib/nginx/modules/ngx_stream_module.so")
_VCL = """\
vcl 4.1;
backend origin {{ .host = "{server}"; .port = "{port}"; }}
sub vcl_recv {{ return (pass); }}
"""


@dataclass(frozen=True)
class Contender:
    """One converter. ``prepared`` writes what it needs and gives its command for the length of a block; one that is
    ``mptcpized`` listens by MPTCP under mptcpize(8) only.
    """

    name: str
    port: int
    needs: tuple[str, ...]
    """Commands and files."""
    prepared: Callable[[Cabling, str], AbstractContextManager[list[str]]]
    mptcpized: bool = True
    is_asked: bool = False
    """Clients ask it as an HTTP proxy; otherwise it forwards all that comes to the origin."""
    by_connect: bool = False
    """They ask for a tunnel to the origin."""

    stalls: bool = False
    """It cannot take part in bulk by MPTCP: it stops in the middle."""

    @property
    def listens(self) -> str:
        """Address and port."""
        return f"{LISTENER}:{self.port}"

    @property
    def route(self) -> Route:
        """To the origin through it."""
        if self.by_connect:
            return self.tunnel
        return ("--to", ORIGIN, "--via-http-proxy", self.listens) if self.is_asked else ("--to", self.listens)

    @property
    def tunnel(self) -> Route:
        """The same by CONNECT, where there is a choice."""
        return ("--to", ORIGIN, "--via-connect", self.listens) if self.is_asked else ("--to", self.listens)

    @property
    def missing(self) -> str | None:
        """What it needs first that is not here."""
        return next((each for each in self.needs if not Path(each).exists() and shutil.which(each) is None), None)

    @contextmanager
    def command(self, cabling: Cabling, *, mptcp: bool = True) -> Iterator[list[str]]:
        """What starts it, for the length of the block."""
        with self.prepared(cabling, self.listens) as command:
            yield [*(_MPTCPIZE if mptcp and self.mptcpized else ()), *command]

    @contextmanager
    def running(self, cabling: Cabling, *wrapper: str, mptcp: bool = True) -> Iterator[Process]:
        """It listens for the length of the block, started by ``wrapper``; raises CommandError if it does not begin to:
        by MPTCP, or by TCP at least without ``mptcp``.
        """
        gateway = cabling.testbed.gateway
        with (
            self.command(cabling, mptcp=mptcp) as command,
            gateway.start(self.name, [*wrapper, *command]) as process,
        ):
            _wait_until_it_listens(process, gateway, self.port, mptcp=mptcp)
            # Varnish listens before the process is there that answers.
            cabling.load("bulk", "--bytes", "1", *self.route, *(["--mptcp"] if mptcp else []))
            yield process


def _wait_until_it_listens(process: Process, gateway: Node, port: int, *, mptcp: bool) -> None:
    deadline = time.monotonic() + 20
    while gateway.run("ss", "-HlnM" if mptcp else "-Hlnt", f"sport = :{port}") == "":
        if process.popen.poll() is not None or time.monotonic() > deadline:
            last = " | ".join(process.output().splitlines()[-3:])
            protocol = "MPTCP" if mptcp else "TCP"
            name = process.log.stem
            raise CommandError(Exit.SYSTEM, f"{name} does not listen by {protocol}: {last or 'it printed nothing'}")
        time.sleep(0.02)


def _file(cabling: Cabling, name: str, text: str) -> str:
    path = cabling.testbed.directory / name
    path.write_text(text)
    return str(path)


@contextmanager
def _native(cabling: Cabling, listen: str) -> Iterator[list[str]]:
    port = listen.rpartition(":")[2]
    text = _NATIVE.format(clients=CLIENTS, directory=cabling.testbed.directory, listen=listen, port=port)
    yield [str(cabling.programs.converter), "--config", _file(cabling, f"converter-{port}.toml", text)]


@contextmanager
def _squid(cabling: Cabling, listen: str) -> Iterator[list[str]]:
    """As the appliance runs it, with no cache; without its guard, which has nothing to do for a listener."""
    address, _, port = listen.rpartition(":")
    state = cabling.testbed.directory / "squid-state"
    origin_port = ORIGIN.rpartition(":")[2]
    text = _SQUID.format(port=port, listen=address, clients=CLIENTS, origin_port=origin_port, state=state)
    (state / "log").mkdir(parents=True, exist_ok=True)
    shutil.chown(state / "log", "proxy")
    render = (sys.executable, "-m", "squid", "render", "--own", address, _file(cabling, "squid.toml", text))
    configuration = _file(cabling, "squid.conf", cabling.testbed.gateway.run(*render))
    name = "tributarybench"
    try:
        yield ["squid", "-N", "-n", name, "-f", configuration]
    finally:
        for segment in Path("/dev/shm").glob(f"{name}-*.shm"):
            segment.unlink(missing_ok=True)


@contextmanager
def _haproxy(cabling: Cabling, listen: str) -> Iterator[list[str]]:
    configuration = _file(cabling, "haproxy.cfg", HAPROXY.format(listen=listen, origin=ORIGIN))
    yield ["haproxy", "-db", "-f", configuration]


@contextmanager
def _haproxy_http(cabling: Cabling, listen: str) -> Iterator[list[str]]:
    configuration = _file(cabling, "haproxy-http.cfg", _HAPROXY_HTTP.format(listen=listen, origin=ORIGIN))
    yield ["haproxy", "-db", "-f", configuration]


@contextmanager
def _varnish(cabling: Cabling, listen: str) -> Iterator[list[str]]:
    vcl = _file(cabling, "varnish.vcl", _VCL.format(server=SERVER, port=ORIGIN.rpartition(":")[2]))
    shutil.rmtree(_VARNISH, ignore_errors=True)
    try:
        yield ["varnishd", "-F", "-f", vcl, "-a", listen, "-n", str(_VARNISH), "-s", "malloc,64m"]
    finally:
        shutil.rmtree(_VARNISH, ignore_errors=True)


@contextmanager
def _nginx(cabling: Cabling, listen: str) -> Iterator[list[str]]:
    text = _NGINX.format(module=_NGINX_MODULE, directory=cabling.testbed.directory, listen=listen, origin=ORIGIN)
    yield ["nginx", "-c", _file(cabling, "nginx-stream.conf", text), "-e", "stderr"]


@contextmanager
def _relay(cabling: Cabling, listen: str) -> Iterator[list[str]]:
    yield [str(cabling.programs.load), "relay", "--listen", listen, "--to", ORIGIN, "--buffer", "256KiB", "--mptcp"]


CONTENDERS = {
    each.name: each
    for each in (
        Contender(NATIVE, 3128, (), _native, mptcpized=False, is_asked=True),
        Contender(TUNNEL, 3135, (), _native, mptcpized=False, is_asked=True, by_connect=True),
        Contender("squid", 3129, ("squid",), _squid, is_asked=True),
        Contender("haproxy", 3130, ("haproxy",), _haproxy),
        Contender(HAPROXY_HTTP, 3134, ("haproxy",), _haproxy_http),
        Contender("varnish", 3131, ("varnishd",), _varnish),
        # nginx waits for edges of epoll(7) that an MPTCP socket with data left in it does not give (Linux 6.18, nginx
        # 1.22): a bulk transfer stands still for ever. Small requests fit in the buffers, and pass.
        Contender("nginx", 3132, ("nginx", str(_NGINX_MODULE)), _nginx, stalls=True),
        Contender("relay", 3133, (), _relay, mptcpized=False),
    )
}
"""All of them; which ones are here is for the caller to see. Ours and the relay are built before they are started."""


def route_of(name: str) -> Route:
    """To the origin through the contender of this name, or without any."""
    return _DIRECT if name == DIRECT else CONTENDERS[name].route
