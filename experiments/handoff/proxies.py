"""What else could stand in the front's place: proxies, with their usual settings for kept connections.

A request for ``/NAME/...`` goes to the back end of this name, to where it serves plain HTTP.
"""

import shutil
from dataclasses import dataclass

from experiments.handoff.network import Network
from experiments.testbed.node import Process
from experiments.testbed.server import HAPROXY_DEFAULTS, start_nginx

_NGINX = """\
    keepalive_requests 100000000;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_max_temp_file_size 0;
{upstreams}    server {{
        listen {port};
{locations}    }}
"""
_UPSTREAM = "    upstream {name} {{ server {http}; keepalive 64; }}\n"
_LOCATION = "        location /{name}/ {{ proxy_pass http://{name}; }}\n"
_HAPROXY = (
    HAPROXY_DEFAULTS
    + """\
    mode http
    http-reuse always
frontend service
    bind :{port}
{uses}
{back_ends}"""
)
_USE = "    use_backend {name} if {{ path_beg /{name}/ }}\n"
_BACK_END = "backend {name}\n    server {name} {http}\n"


@dataclass(frozen=True)
class Proxy:
    """One of them, which listens at ``port`` of the front's node."""

    program: str
    port: int

    @property
    def is_here(self) -> bool:
        return shutil.which(self.program) is not None

    def start(self, network: Network) -> Process:
        """It, as it listens. Raises CommandError (exit 71) if it does not begin to."""
        front = network.nodes["front"]
        text = self.configuration({name: network.http(name) for name in network.back_ends})
        if self.program == "nginx":
            process = start_nginx(front, "nginx", text, workers="auto")
        else:
            file = front.write("haproxy.cfg", text)
            process = front.start("haproxy", ["haproxy", "-db", "-f", str(file)])
        return process.wait_until(lambda: front.listens(self.port))

    def configuration(self, back_ends: dict[str, str]) -> str:
        """What it reads, of nginx the http block; ``back_ends`` are their addresses and ports by their names. Pure."""

        def each(line: str) -> str:
            return "".join(line.format(name=name, http=http) for name, http in back_ends.items())

        if self.program == "nginx":
            upstreams, locations = each(_UPSTREAM), each(_LOCATION)
            return _NGINX.format(port=self.port, upstreams=upstreams, locations=locations)
        return _HAPROXY.format(port=self.port, uses=each(_USE), back_ends=each(_BACK_END))


PROXIES = {each.program: each for each in (Proxy("nginx", 8001), Proxy("haproxy", 8002))}
