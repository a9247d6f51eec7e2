"""WireGuard interfaces: the configuration as text for wg(8), and the status of peers. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

Network = IPv4Network | IPv6Network


@dataclass(frozen=True)
class Peer:
    """A peer; ``allowed`` are the addresses that it may send from, and that are routed to it.

    Without an ``endpoint`` it waits for the peer's first packet; ``keepalive`` in seconds, 0 for none.
    """

    public_key: str
    allowed: tuple[Network, ...]
    endpoint: str | None = None
    keepalive: int = 0


@dataclass(frozen=True)
class Interface:
    """An interface's configuration. ``mark`` is the netfilter mark of the encrypted packets, 0 for none."""

    private_key: str
    peers: tuple[Peer, ...]
    port: int = 0
    mark: int = 0


@dataclass(frozen=True)
class PeerStatus:
    """A peer's status: endpoint, last handshake (seconds since 1970, None: never), bytes."""

    public_key: str
    endpoint: str | None
    handshake: float | None
    received: int
    sent: int
    allowed: tuple[Network, ...] = ()


def configuration(interface: Interface) -> str:
    """For ``wg setconf`` and ``wg syncconf``: a file with the private key."""
    return "\n".join(_lines(interface)) + "\n"


def _lines(interface: Interface) -> Iterator[str]:
    yield "[Interface]"
    yield f"PrivateKey = {interface.private_key}"
    if interface.port:
        yield f"ListenPort = {interface.port}"
    yield f"FwMark = {interface.mark:#x}" if interface.mark else "FwMark = off"
    for peer in interface.peers:
        yield "[Peer]"
        yield f"PublicKey = {peer.public_key}"
        yield f"AllowedIPs = {', '.join(map(str, peer.allowed))}"
        if peer.endpoint:
            yield f"Endpoint = {peer.endpoint}"
        if peer.keepalive:
            yield f"PersistentKeepalive = {peer.keepalive}"


def peer_statuses(dump: str) -> Sequence[PeerStatus]:
    """From ``wg show NAME dump``: one line per peer after the interface's own."""
    return [_peer(line.split("\t")) for line in dump.splitlines()[1:]]


def _peer(fields: Sequence[str]) -> PeerStatus:
    public_key, _preshared, endpoint, allowed, handshake, received, sent, _keepalive = fields
    return PeerStatus(
        public_key,
        None if endpoint == "(none)" else endpoint,
        float(handshake) if int(handshake) else None,
        int(received),
        int(sent),
        () if allowed == "(none)" else tuple(map(ip_network, allowed.split(","))),
    )
