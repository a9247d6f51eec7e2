"""The documents that ``tributary`` prints with --json; docs/api.md is made from them.

Times are in seconds, sizes in bytes, rates in bits per second, and null is what is not known here.
"""

from collections.abc import Iterable
from typing import ClassVar, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field

VERSION = 1
"""Of all documents; a field may be added without another one."""

N = TypeVar("N", int, float)


class Document(BaseModel):
    """The base of all documents, each of which is built when it is used first."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    KEY: ClassVar[tuple[str, ...]] = ("name",)
    """The fields that tell it from others of its kind."""

    @property
    def key(self) -> str:
        return " ".join(str(getattr(self, field)) for field in self.KEY)


class Counted(Document):
    """The base of those that count bytes."""

    sent: int | None = Field(description="bytes sent to it; of a link by its interface")
    received: int | None = Field(description="bytes received from it")
    sent_rate: float | None = Field(default=None, description="how fast `sent` grew since the last look of `--watch`")
    received_rate: float | None = Field(default=None, description="the same of `received`")


def known_sum(numbers: Iterable[N | None]) -> N | None:
    """The sum of those that are known; None if none is."""
    known = [number for number in numbers if number is not None]
    return cast(N, sum(known)) if known else None


class Link(Counted):
    """An access link of a home router, or a path of a gateway to its clients."""

    name: str = Field(description="in the settings")
    kind: Literal["wan", "path"] = Field(description="`wan`: an access link; `path`: of the throttler's policy")
    state: Literal["up", "standby", "down"] = Field(description="`standby`: it works, and waits until it is needed")
    reason: str | None = Field(description="why it is down")
    age: float | None = Field(description="time in this state")
    interface: str | None = Field(description="network interface")
    use: str | None = Field(description="`primary`, `overflow` or `backup`")
    rtt: float | None = Field(description="of the last probe")
    loss: float | None = Field(default=None, description="share of the last 100 probes")
    download: int | None = Field(description="what it carries to this side's clients")
    upload: int | None = Field(description="the other direction")
    used: int | None = Field(description="used of its monthly cap")
    cap: int | None = Field(description="its monthly cap")
    subflows: int | None = Field(description="over it")
    throttled: int | None = Field(description="of them")
    limit: str | None = Field(description="by `tributary limit`")
    advice: tuple[str, ...] = Field(description="what is wrong, and what would help")

    @property
    def condition(self) -> str:
        return f"{self.state}, {self.reason}" if self.reason else self.state


class Finding(Document):
    """What the doctor found by one check."""

    KEY = ("check", "message")

    check: str = Field(description="its name")
    state: str = Field(description="`ok`, `wrong`, `note`: works with limits, `unknown`: could not be examined")
    message: str = Field(description="what was found")
    fix: tuple[str, ...] = Field(description="commands, in order")
    advice: str = Field(description="what would help where no command does")
    fix_name: str | None = Field(default=None, description="by which a console has it fixed; null: root alone may")


class Subflow(Counted):
    """One TCP connection of a session."""

    KEY = ("local", "remote")

    local: str = Field(description="this side's address and port")
    remote: str = Field(description="the client's address and port")
    path: str | None = Field(description="its path")
    initial: bool = Field(description="the session's first one")
    backup: bool = Field(description="used only when no other works (RFC 8684 section 3.3.8)")
    rule: str | None = Field(description="that applies to it")
    throttled: bool = Field(description="a rule may also let it pass")
    counted_by: str | None = Field(description="the rule that only counts it (`dry-run`)")
    rtt: float | None = Field(description="smoothed round-trip time")
    download: str | None = Field(default=None, description="its class for downloads, as in `tc class show`")
    upload: str | None = Field(default=None, description="its class for uploads")


class Session(Counted):
    """A session of Multipath TCP; its bytes and rates are those of all its subflows."""

    KEY = ("token",)

    token: str = Field(description="the listener's, the second one of `ss -ti`: eight hexadecimal digits")
    client: str = Field(description="address on its first subflow")
    age: float = Field(description="since first seen")
    active: int = Field(description="subflows but backups")
    throttled: int = Field(description="throttled subflows")
    subflows: tuple[Subflow, ...] = Field(description="its subflows")


class Rule(Document):
    """A rule of the throttler's policy."""

    name: str = Field(description="its name")
    state: str = Field(description="in words")
    rate: str | None = Field(description="its rate")
    shared_by: str = Field(description="who shares a class")
    subflows: int = Field(description="its subflows")
    matches: int = Field(description="matches so far")
    quota: str | None = Field(description="its quota")
    used: int | None = Field(description="most used by one owner")
    exhausted: int | None = Field(description="owners over their quota")


class HtbClass(Document):
    """An HTB class that throttles subflows."""

    KEY = ("device", "id", "rule", "owner")

    device: str = Field(description="network interface, an IFB for uploads")
    id: str = Field(description="as in `tc class show`")
    direction: str = Field(description="`download` or `upload`")
    rule: str = Field(description="its rule")
    owner: str = Field(description="who shares it")
    rate: str = Field(description="its rate")
    ceiling: str = Field(description="its ceiling")
    subflows: int = Field(description="subflows in it")
    sent: int | None = Field(description="bytes that passed")
    sent_rate: float | None = Field(default=None, description="how fast `sent` grew since the last look of `--watch`")
    packets: int | None = Field(default=None, description="packets that passed")
    dropped: int | None = Field(description="packets that it dropped")
    drop_rate: float | None = Field(default=None, description="packets a second since the last look of `--watch`")
    backlog: int | None = Field(description="bytes that wait in it")


class Tunnel(Document):
    """A router's tunnel that is up: one over each of its links, and one for everything else."""

    KEY = ("address",)

    link: int | None = Field(description="its link's number; null for everything else")
    address: str = Field(description="its address inside")
    outside: str | None = Field(description="where its packets come from")


class Router(Counted):
    """A home router that is enrolled at this gateway."""

    name: str = Field(description="its name")
    number: int = Field(description="from which its addresses follow")
    addresses: tuple[str, ...] = Field(description="of its tunnels, the first for everything else")
    prefix: str | None = Field(description="its LAN's IPv6 prefix")
    enrolled: str = Field(description="when, in UTC (RFC 3339)")
    rotating: bool = Field(description="its new keys wait to be used")
    last_seen: float | None = Field(description="since its last handshake")
    up: tuple[Tunnel, ...] = Field(description="with a handshake in the last 180 s")
    forwards: tuple[str, ...] = Field(description="this gateway's ports that lead to it")

    @property
    def links_up(self) -> int:
        return sum(tunnel.link is not None for tunnel in self.up)


class Device(Counted):
    """A device of a home router's LAN."""

    KEY = ("mac",)

    mac: str = Field(description="its MAC address, or a number")
    name: str | None = Field(description="that it gave itself")
    addresses: tuple[str, ...] = Field(description="seen ones, IPv4 first")


class Bypass(Document):
    """Connections of a home router's LAN that leave by a link, past the tunnels."""

    KEY = ("match",)

    match: tuple[str, ...] = Field(description="what is by-passed; all of it has to match")
    to: str = Field(description="a link's name, `best`, or `gateway`: what is not by-passed")
    added: bool = Field(description="whether it was added while the router runs; those of the settings come later")


class LinkTunnel(Document):
    """A tunnel of a home router to its gateway."""

    KEY = ("interface",)

    interface: str = Field(description="network interface")
    address: str = Field(description="its address inside")
    link: str | None = Field(description="the link that it is over; null: for everything else, over the best one")
    state: Literal["up", "standby", "down", "unknown"] = Field(description="as its link; `down`: nothing answers by it")
    rtt: float | None = Field(description="round-trip time to the gateway")


class HomeGateway(Document):
    """The gateway that a home router uses."""

    KEY = ("address",)

    address: str = Field(description="its name or address and port, as in the settings")
    resolved: tuple[str, ...] = Field(description="the addresses of its name")
    answers: bool = Field(description="whether it answers by any link")
    earlier: str | None = Field(description="an earlier one of the settings, which has not answered for long enough")
    tunnels: tuple[LinkTunnel, ...] = Field(description="the tunnels to it")


class Account(Document):
    """What the converter carried for one client, router or path on a day."""

    KEY = ("day", "client", "router", "path")

    day: str | None = Field(description="the day in UTC (RFC 3339)")
    client: str | None = Field(description="its address or network; on a path, the one there")
    router: str | None = Field(description="home router behind that address")
    path: str | None = Field(description="null where the log names none, as of plain TCP")
    connections: int = Field(description="that ended, or requests; each path has its own")
    received: int = Field(description="bytes from the client")
    sent: int = Field(description="bytes to the client")


class Service(Document):
    """A program of Tributary, and whether it runs here."""

    name: str = Field(description="such as `converter`; `overlay`, `handoff` and `fleet` only where they run")
    running: bool = Field(description="in this network namespace")
    uptime: float | None = Field(description="for how long")
    summary: str = Field(description="what it does now, or why nothing is known")

    @property
    def is_silent(self) -> bool:
        """Whether it is there and does not answer: what is not there has no summary."""
        return not self.running and self.summary != ""

    @property
    def state(self) -> str:
        return "runs" if self.running else "does not answer" if self.is_silent else "does not run"


class Change(Document):
    """What `tributary monitor` has seen change."""

    time: str = Field(description="when, in UTC (RFC 3339)")
    kind: Literal["session", "link", "service"] = Field(description="what has changed")
    name: str = Field(description="the session's token, or the name")
    change: Literal["new", "gone", "changed"] = Field(description="how")
    text: str = Field(description="all in words")
