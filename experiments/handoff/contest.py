"""A hand-off at work, over links of one rate, beside proxies in the front's place and back ends asked directly.

                          +-- 1 link --- front (or a proxy)
    client --N links-- switch
                          +-- 1 link --- back end a
                          +-- 1 link --- back end b ...

What a proxy answers with has to come to it and leave it by its one link: so one link's rate is all that the client gets
by it, however many back ends there are. By a hand-off, and directly, it gets what all back ends' links carry together.
"""

import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from experiments.handoff import clients
from experiments.handoff.network import BACK_ENDS, SERVICE, Network, shape, standing_network
from experiments.handoff.running import RELAYED, at_work
from experiments.study.blueprint import Ground, Standing
from experiments.testbed.build import reserved
from experiments.testbed.node import Node, Process
from experiments.testbed.server import HAPROXY_DEFAULTS, start_nginx
from experiments.testbed.usage import Clocks, family
from tributary.settings.errors import CommandError, Exit
from tributary.settings.units import Rate

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
    """What else could stand in the front's place, at ``port`` of its node, with usual settings for kept connections.

    A request for ``/NAME/...`` goes to the back end of this name, to where it serves plain HTTP.
    """

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


HANDOFF, DIRECT = "handoff", "direct"
CONTENDERS = (HANDOFF, DIRECT, *PROXIES)
"""Ours, without any, and the proxies."""
SMALL = 1000
"""Bytes of an object that is answered by one segment."""


@dataclass(frozen=True)
class Contest:
    """All of them, as they listen; the ``processes`` of the front and of those in its place."""

    network: Network
    processes: Mapping[str, Process] = field(default_factory=dict)

    @property
    def client(self) -> Node:
        return self.network.nodes["client"]

    @property
    def front_bytes(self) -> int:
        """Bytes that went over the link to the front so far, in the direction in which more did."""
        return max(self.network.passed("front"))

    def url(self, by: str, back_end: str, size: int) -> str:
        """Of an object of so many bytes at a back end, by a contender."""
        if by == DIRECT:
            host = self.network.http(back_end)
        else:
            host = SERVICE if by == HANDOFF else f"{self.network.address('front')}:{PROXIES[by].port}"
        return f"http://{host}/{back_end}/{size}"

    def load(
        self, by: str, size: int, connections: int, seconds: float, back_ends: int | None = None
    ) -> dict[str, float]:
        """What clients get, so many connections for each of all ``back_ends``, or the first of them: ``mbps``,
        ``per_second``; and meanwhile of the front, or who is in its place, ``front_cpu_ms_per_gb`` and
        ``front_cpu_percent`` of one processor, and ``front_percent`` of the bytes that passed its link, counted in the
        direction in which more of them did. Raises CommandError (exit 1) if a request failed.
        """
        asked = self.network.back_ends[:back_ends]
        clocks = Clocks(family(self.processes[by].popen.pid) if by in self.processes else ())
        since, before = time.monotonic(), self.front_bytes
        got = clients.load(self.client, [self.url(by, each, size) for each in asked], connections, seconds)
        took, worked = time.monotonic() - since, clocks.seconds()
        if (errors := got.pop("errors")) or not got["per_second"]:
            complaint = f"{by}: {errors:.0f} requests failed, {got['per_second']:.0f}/s did not"
            raise CommandError(Exit.WRONG_RESULT, complaint)
        gigabytes = got["mbps"] * took / 8000
        return {
            **got,
            "front_cpu_ms_per_gb": 1000 * worked / gigabytes,
            "front_cpu_percent": 100 * worked / took,
            "front_percent": 1e-7 * (self.front_bytes - before) / gigabytes,
        }

    def microseconds(self, urls: Sequence[str], what: str, count: int) -> float:
        """The median of clients.times() at the client, for the last one of ``urls``."""
        return median(group[-1] for group in clients.times(self.client, urls, what, count))


def is_here(by: str) -> bool:
    """Whether a contender can take part."""
    return by not in PROXIES or PROXIES[by].is_here


def contest(
    rate: Rate, sizes: Sequence[int], back_ends: Sequence[str] = BACK_ENDS, links_of_client: int = 2
) -> Ground[Contest]:
    """``back_ends`` with objects of these ``sizes`` in bytes, and links of ``rate``. Raises CommandError (exit 71) as
    it begins to stand if no connection is handed over.
    """

    @contextmanager
    def stands(name: str, _seed: int, _tolerance: float) -> Iterator[Standing[Contest]]:
        with reserved(name) as directory, standing_network(f"trib-{name}", directory, back_ends) as network:
            shape(network, rate.amount, links_of_client)
            for each in network.back_ends:
                _stock(network.objects(each) / each, sizes)
                _stock(network.objects(each) / RELAYED / each, ())
            with at_work(network) as running, ExitStack() as stack:
                here = [proxy for proxy in PROXIES.values() if proxy.is_here]
                proxies = {each.program: stack.enter_context(each.start(network)) for each in here}
                yield Standing(Contest(network, {HANDOFF: running.processes["front"], **proxies}))

    described = {"rate": str(rate), "back_ends": len(back_ends), "links_of_client": links_of_client}
    return Ground(described, stands)


def _stock(folder: Path, sizes: Sequence[int]) -> None:
    """Objects whose names are their sizes."""
    folder.mkdir(parents=True)
    for size in {SMALL, *sizes}:
        (folder / str(size)).write_bytes(os.urandom(size))
