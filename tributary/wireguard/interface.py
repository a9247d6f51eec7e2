"""WireGuard's interfaces: what one should be, as text for wg(8), and what one says of its peers. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

Network = IPv4Network | IPv6Network

EVERYWHERE = IPv4Network("0.0.0.0/0")


@dataclass(frozen=True)
class Peer:
    """Who is at the other end: ``allowed`` are the addresses that it may send from, and that lead to it.

    ``endpoint`` None waits until the peer is heard; ``keepalive`` in seconds, 0 for none.
    """

    public_key: str
    allowed: tuple[Network, ...]
    endpoint: str | None = None
    keepalive: int = 0


@dataclass(frozen=True)
class Interface:
    """All that wg(8) can set. ``mark`` is the netfilter mark of the encrypted packets, 0 for none."""

    private_key: str
    peers: tuple[Peer, ...]
    port: int = 0
    mark: int = 0


@dataclass(frozen=True)
class PeerStatus:
    """A peer as the interface knows it: where it was heard, when last (seconds since 1970, None: never), bytes."""

    public_key: str
    endpoint: str | None
    handshake: float | None
    received: int
    sent: int
    allowed: tuple[Network, ...] = ()


def configuration(interface: Interface) -> str:
    """For ``wg setconf`` and ``wg syncconf``: a file with the private key, for nobody else's eyes."""
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
    """What ``wg show NAME dump`` prints of the peers, one line for each behind the interface's own."""
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
