"""Documents of what runs beside the converter on some gateways: a fleet, an overlay, the front of a hand-off."""

from typing import ClassVar, Literal

from pydantic import Field

from tributary.api.documents import Document


class OverlayNode(Document):
    """A node of the overlay."""

    name: str = Field(description="its name")
    state: Literal["up", "silent", "away"] = Field(
        description="`silent`: its converter does not answer; `away`: its agent was there and is gone"
    )
    address: str = Field(description="its agent's address")
    pressure: int = Field(description="on its processors, in percent")
    delays: int = Field(description="round-trip times that it measured")
    x: float = Field(description="place on a map whose distances are like delays, in ms")
    y: float = Field(description="the other direction")


class OverlayHop(Document):
    """Two nodes next to each other in chains."""

    KEY: ClassVar[tuple[str, ...]] = ("a", "b")

    a: str = Field(description="one of them")
    b: str = Field(description="the other one")
    rtt: float | None = Field(description="null: not measured")
    chains: int = Field(description="chains, best for 5 rounds, that have this hop")


class Overlay(Document):
    """What the control plane of the overlay has published."""

    KEY: ClassVar[tuple[str, ...]] = ("controller",)

    uptime: float = Field(description="time that it has been read here")
    age: float | None = Field(description="since it was read last; null: never")
    problem: str | None = Field(description="why it could not be read since")
    controller: str | None = Field(description="the elected controller")
    computed: float | None = Field(description="since that computed the chains")
    refused: tuple[str, ...] = Field(description="by the controller")
    nodes: tuple[OverlayNode, ...] = Field(description="64 at most; silent ones first")
    nodes_total: int = Field(description="also those gone")
    nodes_up: int = Field(description="of them")
    hops: tuple[OverlayHop, ...] = Field(description="between these nodes")


class BackEnd(Document):
    """A back end, as the front sees it."""

    name: str = Field(description="its name")
    up: bool = Field(description="whether it takes connections")
    connections: int = Field(description="of this front")


class HandOff(Document):
    """The front of a hand-off; it counts since the converter's start."""

    KEY: ClassVar[tuple[str, ...]] = ()

    switch_up: bool = Field(description="has a session with the switch")
    back_ends: tuple[BackEnd, ...] = Field(description="its back ends")
    requests: dict[str, int] = Field(description="`handed-over`, `relayed`, or `small`: relayed since small")
    failures: dict[str, int] = Field(description="requests not handed over, by reason")


class Fleet(Document):
    """Whether this gateway is announced to routers, with others behind one address."""

    KEY: ClassVar[tuple[str, ...]] = ()

    announced: bool | None = Field(description="null: BIRD does not answer")
    drained: str | None = Field(description="why it was")
    answers: bool = Field(description="whether its proxies answer")
    heard: bool = Field(default=True, description="whether a router hears it")
    connections: int | None = Field(description="clients' connections that are left")
