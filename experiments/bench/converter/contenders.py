"""Who is compared, and how each is started: mostly with an MPTCP listener, and otherwise as Debian's defaults have it.

Under mptcpize a program's connections to the origin offer MPTCP as well. The origin listens by TCP alone and does not
take the offer (RFC 8684 section 3.7): what stays is the little that a fallen-back MPTCP socket costs.
"""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.bench.parts import HAPROXY_HTTP, NATIVE, TUNNEL
from experiments.testbed import cables, native
from experiments.testbed.build import Testbed
from experiments.testbed.cables import CLIENTS, LISTENER, MPTCP_ORIGIN, ORIGIN
from experiments.testbed.node import Process, run
from experiments.testbed.server import HAPROXY_DEFAULTS

Route = tuple[str, ...]
"""Arguments of tributary-load that say how it gets to the origin."""

WITHOUT: Route = ("--to", MPTCP_ORIGIN)
"""Without any converter: MPTCP to the origin, through the gateway as a router."""

_MPTCPIZE = ("mptcpize", "run")

_SQUID = """\
port = {port}
listen = ["{address}"]
client_networks = ["{clients}"]
connect_ports = [{origin_port}]
drain = "0s"
state_directory = "{folder}/squid-state"
"""
_RENDERED = "install -d -o proxy {folder}/squid-state/log && {python} -m squid render --own {address} {file}"
"""As the appliance runs it, with no cache; without its guard, which has nothing to do for a listener."""
_NATIVE = """\
[clients]
networks = ["{clients}"]
[targets]
allow = ["10.0.0.0/8", "203.0.113.0/24"]
[limits]
connections_per_client = 20000
[control]
socket = "{folder}/{name}.sock"
[[listen]]
kind = "http"
address = "{listen}"
"""
_HAPROXY = (
    HAPROXY_DEFAULTS
    + """\
    mode tcp
listen bench
    bind {listen}
    server origin {origin}
"""
)
_NGINX_MODULE = "/usr/lib/nginx/modules/ngx_stream_module.so"
_NGINX = """\
load_module {nginx_module};
daemon off;
user root;
pid {folder}/{name}.pid;
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
_VCL = """\
vcl 4.1;
backend origin {{ .host = "{origin}"; }}
sub vcl_recv {{ return (pass); }}
"""
_VARNISH = "/var/lib/varnish/{name}"
"""Varnish compiles its configuration to a library in there, which /run may not allow (noexec)."""


@dataclass(frozen=True)
class Program:
    """How a converter is started. What stands in braces, in the ``command`` and the ``settings`` that it reads from
    {file}, is an instance's own.
    """

    command: tuple[str, ...]
    settings: str = ""
    rendered: str = ""
    """A shell's command that prints what takes the place of the settings in {file}."""
    leaves: str = ""
    """A pattern of paths that it leaves behind."""

    @contextmanager
    def prepared(self, folder: Path, name: str, listen: str) -> Iterator[list[str]]:
        """Its command, for the length of the block; ``name`` is the instance's, whose files are in ``folder``."""
        address, _, port = listen.rpartition(":")
        file, programs = folder / f"{name}.conf", native.build()
        places = {"folder": folder, "file": file, "name": name, "listen": listen, "address": address, "port": port}
        places |= {"origin": ORIGIN, "origin_port": ORIGIN.rpartition(":")[2], "clients": CLIENTS}
        places |= {"converter": programs.converter, "load": programs.load, "python": sys.executable}
        places["nginx_module"] = _NGINX_MODULE
        file.write_text(self.settings.format(**places))
        if self.rendered:
            file.write_text(run(["sh", "-c", self.rendered.format(**places)]))
        _remove(self.leaves.format(**places))
        try:
            yield [word.format(**places) for word in self.command]
        finally:
            _remove(self.leaves.format(**places))


def _remove(pattern: str) -> None:
    for path in Path("/").glob(pattern.removeprefix("/")) if pattern else ():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def varnish(storage: str) -> Program:
    """Varnish with so much ``storage``."""
    at = ("-a", "{listen}", "-n", _VARNISH, "-s", f"malloc,{storage}")
    return Program(("varnishd", "-F", "-f", "{file}", *at), _VCL, leaves=_VARNISH)


@dataclass(frozen=True)
class Contender:
    """One converter; one that is ``mptcpized`` listens by MPTCP under mptcpize(8) only."""

    name: str
    port: int
    program: Program
    needs: tuple[str, ...] = ()
    """Commands and files."""
    mptcpized: bool = True
    is_asked: bool = False
    """Clients ask it as an HTTP proxy; otherwise it forwards all that comes to the origin."""
    by_connect: bool = False
    """They ask for a tunnel to the origin."""

    stalls: bool = False
    """It cannot take part in bulk by MPTCP: it stops in the middle."""

    @property
    def listens(self) -> str:
        return f"{LISTENER}:{self.port}"

    @property
    def route(self) -> Route:
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
    def command(self, testbed: Testbed, *, mptcp: bool = True) -> Iterator[list[str]]:
        """What starts it, for the length of the block."""
        with self.program.prepared(testbed.directory, f"tributary{self.name}", self.listens) as command:
            yield [*(_MPTCPIZE if mptcp and self.mptcpized else ()), *command]

    @contextmanager
    def running(self, testbed: Testbed, *wrapper: str, mptcp: bool = True) -> Iterator[Process]:
        """It listens for the length of the block, started by ``wrapper``; raises CommandError if it does not begin to:
        by MPTCP, or by TCP at least without ``mptcp``.
        """
        gateway = testbed.gateway
        with self.command(testbed, mptcp=mptcp) as command, gateway.start(self.name, [*wrapper, *command]) as process:
            process.wait_until(lambda: gateway.listens(self.port, mptcp=mptcp))
            # Varnish listens before the process is there that answers.
            cables.load(testbed, "bulk", "--bytes", "1", *self.route, *(["--mptcp"] if mptcp else []))
            yield process


_OURS = Program(("{converter}", "--config", "{file}"), _NATIVE)
_SQUID_RUN = ("squid", "-N", "-n", "{name}", "-f", "{file}")
_SQUID_PROGRAM = Program(_SQUID_RUN, _SQUID, rendered=_RENDERED, leaves="/dev/shm/{name}-*.shm")
_HAPROXY_RUN = ("haproxy", "-db", "-f", "{file}")
_NGINX_RUN = ("nginx", "-c", "{file}", "-e", "stderr")
_RELAY_RUN = ("{load}", "relay", "--listen", "{listen}", "--to", ORIGIN, "--buffer", "256KiB", "--mptcp")
_HAPROXY_HTTP = _HAPROXY.replace("mode tcp", "mode http\n    http-reuse safe")
CONTENDERS = {
    each.name: each
    for each in (
        Contender(NATIVE, 3128, _OURS, mptcpized=False, is_asked=True),
        Contender(TUNNEL, 3135, _OURS, mptcpized=False, is_asked=True, by_connect=True),
        Contender("squid", 3129, _SQUID_PROGRAM, ("squid",), is_asked=True),
        Contender("haproxy", 3130, Program(_HAPROXY_RUN, _HAPROXY), ("haproxy",)),
        Contender(HAPROXY_HTTP, 3134, Program(_HAPROXY_RUN, _HAPROXY_HTTP), ("haproxy",)),
        Contender("varnish", 3131, varnish("64m"), ("varnishd",)),
        # nginx waits for edges of epoll(7) that an MPTCP socket with data left in it does not give (Linux 6.18, nginx
        # 1.22): a bulk transfer stands still for ever. Small requests fit in the buffers, and pass.
        Contender("nginx", 3132, Program(_NGINX_RUN, _NGINX), ("nginx", _NGINX_MODULE), stalls=True),
        Contender("relay", 3133, Program(_RELAY_RUN), mptcpized=False),
    )
}
"""All of them; which ones are here is for the caller to see. Ours and the relay are built before they are started."""
