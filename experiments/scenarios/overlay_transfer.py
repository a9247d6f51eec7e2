"""Short transfers from California to Ireland: by one converter, by three, and beside a CDN's warm connection.

    client -10 ms- Ireland -80.5- Virginia -72- California -10- server        round trips, 100 Mbit/s

The client asks converters by 0-RTT Convert, whose SYNs bring the request along: one in Virginia, the best place for one
alone, or those of all three regions, whose connections to each other have carried transfers before (``gateway.reuse``),
or are new. "cdn" is what a content delivery network does for what it cannot keep: an edge in
Ireland (nginx) takes the client's request, and asks the server over a connection that stands for long, with its window
wide open.

Derived: from connect(2) to the last byte of the answer, medians of several transfers of each size. With R for the whole
round trip, 172.5 ms, directly a transfer takes 2 R and R for each further round of slow start; with converters R, and
the longest hop's round trip for each further round: 90.5 ms with one, 80.5 with three, 10 with three whose hops are
kept. By the edge it takes R, the
client's round trip for its handshake, and that once more for each further round. Expected: converters are about twice
as fast as nobody; those whose hops are kept are ahead of the edge by the handshake; one, and three whose hops are new,
are behind it in several rounds, by what slow start costs on the longest hop.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from matplotlib.figure import Figure

from experiments.plots import line, name_axes
from experiments.scenarios.acceleration import ORIGIN, TransferExperiment, segments, sizes_in, timed
from experiments.study.blueprint import Ground
from experiments.study.readings import Point, Reading, Readings, Repeated, Verdict, at_least, at_most
from experiments.testbed.chain import By, Chain
from experiments.testbed.server import start_nginx
from experiments.testbed.topology import Profile, Topology
from tributary.settings.units import Size

DIRECT, ONE, THREE, NEW, CDN = "direct", "1 converter", "3 converters", "3 converters, new hops", "cdn"
_COLOURS = {DIRECT: "#555555", ONE: "#0072B2", THREE: "#009E73", NEW: "#E69F00", CDN: "#CC79A7"}
_FASTER = 60.0  # percent, at least, by three converters than directly
_BEHIND = 35.0  # percent, at most, one converter than the edge
_EVEN = 5.0  # percent that three may be behind the edge and still count as equal
_COLD = "one converter's hop to the server begins with slow start, which the edge's warm connection has behind it"
_REGIONS = (1, 2, 3)
_VIRGINIA = 2
_EDGE_PORT = 8081
_WARM = (2_000_000, 3)
"""Bytes and number of transfers that open the window of the edge's connection."""
_WARM_HOPS = (2_000_000, 24)
"""The same of those between converters, two by each of their threads: one is in use while the other gets ready."""
_UNTIL_IT_LISTENS = ("--retry", "20", "--retry-connrefused", "--retry-delay", "1")
_EDGE = """\
    upstream origin {{ server {origin}; keepalive 1; }}
    server {{
        listen {listen};
        location / {{
            set $args "";
            proxy_pass http://origin;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffers 64 16k;
            proxy_max_temp_file_size 0;
        }}
    }}
"""


class OverlayTransfer(TransferExperiment):
    """Each size in every way."""

    paper = "MOSTO"
    claim = "Converters on the way bring 10 to 500 kB 60 to 150 % faster; three keep up with a CDN's warm connection."
    expected = "About twice as fast as nobody; with hops that are kept as fast as a warm connection."
    over = "ireland-california.toml"
    quick = {"repeat": 1, "count": 3, "size": "10kB,50kB,500kB"}
    at = [{"by": by} for by in _COLOURS]

    def blueprint(self, profile: Profile, _point: Point) -> Ground[Chain]:
        return segments(Topology.of(profile).links)

    def measure(self, chain: Chain, point: Point, repetition: int) -> Reading:
        return Reading(point, repetition, _taken(chain, point["by"], self.size, self.count))

    def judge(self, _topology: Topology, readings: Readings) -> Iterator[Verdict]:
        for size in (each.amount // 1000 for each in self.size):
            faster = _longer(readings, DIRECT, THREE, size)
            yield at_least(f"{size} kB come 60 % faster by three converters than directly", faster, _FASTER, "%")
            one, three = (_longer(readings, by, CDN, size) for by in (ONE, THREE))
            claim = f"{size} kB by one converter: within 35 % of a warm CDN"
            yield at_most(claim, one, _BEHIND, "%").or_differs(_COLD)
            yield at_most(f"{size} kB by three converters: as by a warm CDN, or faster", three, _EVEN, "%")

    def draw(self, figure: Figure, _topology: Topology, readings: Readings) -> None:
        axes = figure.subplots()
        sizes = sizes_in(readings)
        for by, colour in _COLOURS.items():
            taken = {float(size): readings.at(by=by).estimate(f"whole_ms_{size}") for size in sizes}
            line(axes, taken, by, color=colour)
        name_axes(axes, "size, kB", "ms to the last byte", legend=True, log=sizes)


def _taken(chain: Chain, by: str, sizes: Sequence[Size], count: int) -> dict[str, float]:
    if by == DIRECT:
        return timed(chain, sizes, count, ORIGIN)
    if by == CDN:
        with _edge(chain) as edge:
            return timed(chain, sizes, count, edge)
    at = (_VIRGINIA,) if by == ONE else _REGIONS
    asked = chain.convert(at[0])
    with chain.converting(By.ZERO_RTT, at, kept=by == THREE):
        if by == THREE:
            size, times = _WARM_HOPS
            timed(chain, (Size(size),), times, ORIGIN, asked)
        return timed(chain, sizes, count, ORIGIN, asked)


@contextmanager
def _edge(chain: Chain) -> Iterator[str]:
    """An edge in Ireland, for the length of the block: its address and port."""
    # An idle connection keeps its window: what such networks set on their own servers.
    chain.server.sysctl(net__ipv4__tcp_slow_start_after_idle=0)
    ireland, listen = chain.proxies[0], f"{chain.segments[0].gateway4}:{_EDGE_PORT}"
    with start_nginx(ireland, "edge", _EDGE.format(origin=ORIGIN, listen=listen)):
        size, times = _WARM
        fetch = ["curl", "-sS", "-o", "/dev/null", *_UNTIL_IT_LISTENS, f"http://{listen}/{size}"]
        for _ in range(times):
            chain.client.run(*fetch)
        yield listen


def _longer(readings: Readings, by: str, than: str, size: int) -> Repeated:
    """By how many per cent a transfer takes longer ``by`` one way ``than`` by another, repetition by repetition."""
    both = (readings.at(by=each).repeated(f"whole_ms_{size}") for each in (by, than))
    return Repeated.of(lambda one, other: 100 * (one / other - 1), *both)
