"""The testbed as data: nodes, links, addresses.

    +--------+   wired      +------------+              +---------+            +--------+
    |        |.2 ---------- | link-wired | ---------- .1|         |            |        |
    | client |              +------------+              | gateway |.1 ------ .2| server |
    |        |.2 ------- | link-wireless | ---------- .1|         |            |        |
    +--------+   wireless   +------------+              +---------+            +--------+
     10.0.1.2, fd00:0:0:1::2               10.0.1.1, fd00:0:0:1::1   203.0.113.1     203.0.113.2
     10.0.2.2, fd00:0:0:2::2               10.0.2.1, fd00:0:0:2::1   2001:db8::1     2001:db8::2
                                           proxy: 10.0.0.1, fd00::1
                                           on lo, reached over any link

Each box is a network namespace. The proxy's address belongs to no link, as on a real gateway, so that a link that
goes down takes no session with it. The server's addresses are documentation ranges (RFC 5737, RFC 3849): neither
private nor anybody's. Any number of access links, numbered from 1 in the order of the profile.
"""

import re
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, Field, model_validator

from experiments.testbed.trace import Trace
from tributary.settings.files import Settings
from tributary.settings.units import Duration, PositiveRate, Share

CLIENT, GATEWAY, SERVER = "client", "gateway", "server"
FAMILIES = ("ipv4", "ipv6")
PROXY_PORT = 3128
NATIVE_PORT = 3129
DEFAULT_QUEUE = 100  # packets
IPV6_LEAST_MTU = 1280  # RFC 8200 section 5; Linux takes IPv6 off an interface below
MPTCP_MOST = 8  # endpoints and further subflows: MPTCP_PM_ADDR_MAX in net/mptcp/protocol.h
NO_DELAY, NO_LOSS = Duration(0), Share(0)
_Links = TypeVar("_Links")


class DirectionSettings(Settings):
    """What one direction of a link has different from the link as a whole."""

    rate: PositiveRate | None = None
    trace: Trace | None = None
    delay: Duration | None = None
    jitter: Duration | None = None
    loss: Share | None = None
    queue: int | None = Field(default=None, ge=1, description="a whole number of packets, at least 1")

    @model_validator(mode="after")
    def _rate_or_trace(self) -> Self:
        if self.rate and self.trace:
            raise ValueError("either a rate or a trace")
        return self


class LinkSettings(DirectionSettings):
    """One access link of a profile; the keys are explained in profiles/ethernet-wifi.toml."""

    down: DirectionSettings = DirectionSettings()
    up: DirectionSettings = DirectionSettings()

    @model_validator(mode="after")
    def _rate_or_trace_each_way(self) -> Self:
        if not all(self.rate or self.trace or way.rate or way.trace for way in (self.down, self.up)):
            raise ValueError("a link with a rate, such as '5mbit', or a trace, for each direction")
        return self

    @model_validator(mode="after")
    def _jitter_within_delay(self) -> Self:
        if any(way.jitter > way.delay for way in (Direction.of(self, self.down), Direction.of(self, self.up))):
            raise ValueError("a link whose jitter is at most its delay")
        return self


def link_names(links: dict[str, _Links]) -> dict[str, _Links]:
    """``links`` if each has a name that an interface may have; raises ValueError."""
    # A link's name is also its interfaces' name: at most 15 characters (IFNAMSIZ in linux/if.h).
    for name in links:
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,14}", name) or name in ("core", "lo"):
            raise ValueError("links named by 1 to 15 of a-z, 0-9 and '-', starting with a letter, not 'core' or 'lo'")
    return links


class Profile(Settings):
    """A file of access links."""

    links: Annotated[
        dict[str, LinkSettings],
        AfterValidator(link_names),
        Field(min_length=1, max_length=250, description="one table [links.NAME] for each of 1 to 250 access links"),
    ]


@dataclass(frozen=True)
class Direction:
    """One direction of a link: IP bits per second, one-way delay and jitter, loss, queue in packets.

    Where a trace says how much it carries from moment to moment, the rate is the trace's mean.
    """

    rate: PositiveRate
    delay: Duration
    jitter: Duration
    loss: Share
    queue: int
    trace: Trace | None

    @staticmethod
    def of(link: LinkSettings, own: DirectionSettings) -> "Direction":
        """``link`` with what ``own`` has different."""
        carries = own.rate or own.trace or link.rate or link.trace
        assert carries is not None  # checked by LinkSettings
        rate, trace = (carries.mean, carries) if isinstance(carries, Trace) else (carries, None)
        return Direction(
            rate=rate,
            delay=own.delay or link.delay or NO_DELAY,
            jitter=own.jitter or link.jitter or NO_DELAY,
            loss=own.loss or link.loss or NO_LOSS,
            queue=own.queue or link.queue or DEFAULT_QUEUE,
            trace=trace,
        )


@dataclass(frozen=True)
class Link:
    """An access link between the client and the gateway, the ``number``-th from 1, with the addresses of its ends.

    The client's are of networks with prefixes of these ``lengths``; a family that it has not has the unspecified one.
    What is ``unjudged`` (of ``rtt_ms``, ``down_mbps``, ``up_mbps``) need not be as described.
    """

    name: str
    number: int
    down: Direction
    up: Direction
    client4: IPv4Address
    gateway4: IPv4Address
    client6: IPv6Address
    gateway6: IPv6Address
    lengths: tuple[int, int] = (24, 64)
    unjudged: frozenset[str] = frozenset()

    @staticmethod
    def numbered(name: str, number: int, down: Direction, up: Direction) -> "Link":
        """With the addresses that namespaces have on it."""
        four, six = IPv4Address("10.0.0.0") + 256 * number, IPv6Address(f"fd00:0:0:{number:x}::")
        return Link(name, number, down, up, four + 2, four + 1, six + 2, six + 1)

    @property
    def node(self) -> str:
        return f"link-{self.name}"

    @property
    def networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """Those that the client's addresses on this link are of."""
        own = zip((self.client4, self.client6), self.lengths, strict=True)
        return tuple(ip_network(f"{address}/{length}", strict=False) for address, length in own if int(address))

    def with_each_way(self, **changes: Any) -> Self:
        """The same with ``changes`` of both directions."""
        return replace(self, down=replace(self.down, **changes), up=replace(self.up, **changes))

    @property
    def traced(self) -> bool:
        return bool(self.down.trace or self.up.trace)

    @property
    def rtt(self) -> float:
        """Round-trip time of an empty link, in seconds."""
        return self.down.delay.seconds + self.up.delay.seconds

    def judged(self, what: str) -> bool:
        return what not in self.unjudged


@dataclass(frozen=True)
class Topology:
    """A client, a gateway, a server, and the access links between the first two.

    ``families`` are those that all links have addresses of. The addresses are those of namespaces, unless they are
    given. ``OPENED`` are networks that a converter refuses to reach unless it is told to: a private server's.
    """

    links: tuple[Link, ...]
    families: tuple[str, ...] = FAMILIES

    PROXY4: IPv4Address = field(default=IPv4Address("10.0.0.1"))
    PROXY6: IPv6Address = field(default=IPv6Address("fd00::1"))
    SERVER4: IPv4Address = field(default=IPv4Address("203.0.113.2"))
    SERVER6: IPv6Address = field(default=IPv6Address("2001:db8::2"))
    CLIENT_NETWORKS: tuple[str, ...] = ("10.0.0.0/16", "fd00::/48")
    OPENED: tuple[str, ...] = ()

    CORE_GATEWAY4, CORE_GATEWAY6 = IPv4Address("203.0.113.1"), IPv6Address("2001:db8::1")

    @staticmethod
    def of(profile: Profile) -> "Topology":
        return Topology(
            tuple(
                Link.numbered(name, number, Direction.of(link, link.down), Direction.of(link, link.up))
                for number, (name, link) in enumerate(profile.links.items(), start=1)
            )
        )

    @property
    def nodes(self) -> tuple[str, ...]:
        return (CLIENT, *(link.node for link in self.links), GATEWAY, SERVER)

    @property
    def joining(self) -> tuple[Link, ...]:
        """The links, beside the first, by which sessions get a further subflow: as many as the kernel has endpoints
        for, by each family alike.
        """
        return self.links[1:][: MPTCP_MOST // len(self.families)]

    def path_of(self, address: str) -> str:
        """The name of the link in whose network this address is; raises KeyError for any other address."""
        for link in self.links:
            if any(ip_address(address) in network for network in link.networks):
                return link.name
        raise KeyError(address)
