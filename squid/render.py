"""Renders squid.conf and the guard's nft table from the settings. Pure."""

from collections.abc import Iterable, Sequence
from ipaddress import ip_network
from pathlib import Path

from squid import targets
from squid.settings import SquidSettings
from tributary.settings.hosts import Address, Network
from tributary.settings.templates import rendered

_TEMPLATES = Path(__file__).parent


def squid_conf(settings: SquidSettings, own: Sequence[Address]) -> str:
    """The squid.conf for ``settings`` on a machine with these ``own`` addresses."""
    return rendered(
        _TEMPLATES / "squid.conf.j2",
        listeners=settings.listeners,
        port=settings.port,
        counters_port=settings.counters_port,
        clients=_texts(targets.disjoint(settings.clients)),
        connect_ports=_texts(settings.connect_ports),
        http_ports=_texts(settings.http_ports),
        never_targets=_texts(targets.never()),
        own_targets=_texts(_every_form(own)),
        private_targets=_texts(targets.private(settings.private_targets)),
        cache_mebibytes=settings.cache.amount // 2**20 if settings.cache else 0,
        head_timeout=int(settings.head_timeout.seconds),
        drain=int(settings.drain.seconds),
        resolvers=_texts(settings.resolvers),
        hosts_file=settings.hosts_file,
        privacy=settings.privacy,
        pid=settings.paths.pid,
        logs=settings.paths.logs,
        cache=settings.paths.cache,
    )


def guard(settings: SquidSettings) -> str:
    """The nft commands that replace the guard's table, in one transaction."""
    refused = targets.disjoint([*targets.never(), *targets.private(settings.private_targets), targets.MAPPED])
    return rendered(
        _TEMPLATES / "guard.nft.j2",
        refused4=_texts(network for network in refused if network.version == 4),
        refused6=_texts(network for network in refused if network.version == 6),
    )


def _every_form(own: Sequence[Address]) -> list[Network]:
    networks = [ip_network(address) for address in own]
    return targets.disjoint([*networks, *targets.carrying(networks)])


def _texts(items: Iterable[object]) -> list[str]:
    return [str(item) for item in items]
