"""What else could stand in the front's place: proxies, with their usual settings for kept connections.

A request for ``/NAME/...`` goes to the back end of this name, to where it serves plain HTTP.
"""

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from experiments.handoff.network import Network
from experiments.testbed.node import Process
from tributary.settings.errors import CommandError, Exit

_READY_WITHIN = 20.0
"""Seconds in which one listens, or fails."""

_NGINX = """\
daemon off;
user root;
worker_processes auto;
pid {folder}/pid;
error_log stderr error;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {folder};
    proxy_temp_path {folder};
    fastcgi_temp_path {folder};
    uwsgi_temp_path {folder};
    scgi_temp_path {folder};
    keepalive_requests 100000000;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_max_temp_file_size 0;
{upstreams}    server {{
        listen {port};
{locations}    }}
}}
"""
_UPSTREAM = "    upstream {name} {{ server {http}; keepalive 64; }}\n"
_LOCATION = "        location /{name}/ {{ proxy_pass http://{name}; }}\n"
_HAPROXY = """\
defaults
    mode http
    timeout connect 10s
    timeout client 1h
    timeout server 1h
    http-reuse always
frontend service
    bind :{port}
{uses}
{back_ends}"""
_USE = "    use_backend {name} if {{ path_beg /{name}/ }}\n"
_BACK_END = "backend {name}\n    server {name} {http}\n"


@dataclass(frozen=True)
class Proxy:
    """One of them, which listens at ``port`` of the front's node."""

    program: str
    port: int

    @property
    def is_here(self) -> bool:
        """Whether it is installed."""
        return shutil.which(self.program) is not None

    def start(self, network: Network) -> Process:
        """It, as it listens. Raises CommandError (exit 71) if it does not begin to."""
        folder = network.directory / self.program
        folder.mkdir(exist_ok=True)
        file = folder / "configuration"
        file.write_text(self.configuration({name: network.http(name) for name in network.back_ends}, folder))
        how = ("-e", "stderr", "-c") if self.program == "nginx" else ("-db", "-f")
        process = network.nodes["front"].start(self.program, [self.program, *how, str(file)])
        deadline = time.monotonic() + _READY_WITHIN
        while not network.nodes["front"].run("ss", "-Hlnt", f"sport = :{self.port}"):
            if process.popen.poll() is not None or time.monotonic() > deadline:
                raise CommandError(Exit.SYSTEM, f"{self.program} does not listen: {process.output().strip()}")
            time.sleep(0.02)
        return process

    def configuration(self, back_ends: dict[str, str], folder: Path) -> str:
        """What it reads; ``back_ends`` are their addresses and ports by their names. Pure."""

        def each(line: str) -> str:
            return "".join(line.format(name=name, http=http) for name, http in back_ends.items())

        if self.program == "nginx":
            upstreams, locations = each(_UPSTREAM), each(_LOCATION)
            return _NGINX.format(folder=folder, port=self.port, upstreams=upstreams, locations=locations)
        return _HAPROXY.format(port=self.port, uses=each(_USE), back_ends=each(_BACK_END))


PROXIES = {each.program: each for each in (Proxy("nginx", 8001), Proxy("haproxy", 8002))}
