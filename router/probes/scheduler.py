"""Starts probes to the gateway and reads their results. The reconciler decides what is due and what follows."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from router.probes.tcp_probe import TcpProbe
from router.shaping.shaper import LinkShapers, Tell
from router.state.plan import Operation
from router.state.reconciler import Reconciler
from router.tunnels.model import TunnelConfig
from tributary.daemons.logs import Level, Log


class Purpose(Enum):
    """What a probe is for."""

    LINK = "whether a link leads to the gateway"
    DELAY = "how long that takes, of a link whose rates move"
    TUNNEL = "nothing: it says where a tunnel is now"
    FAILBACK = "whether an earlier gateway answers"


@dataclass(frozen=True)
class ProbeKey:
    """A probe for the link or interface of this name."""

    purpose: Purpose
    name: str = ""


class ProbeScheduler:
    """Probes of links, of an earlier gateway, and of the delay of links with adaptive rates."""

    def __init__(
        self, tcp_probe: TcpProbe[ProbeKey], reconciler: Reconciler, shapers: LinkShapers, log: Log, tell: Tell
    ) -> None:
        self._tcp_probe, self._reconciler, self._shapers = tcp_probe, reconciler, shapers
        self._log, self._report = log, tell

    @property
    def next_due(self) -> float | None:
        """When there is something to do without a readable socket."""
        reconciler = self._reconciler
        scouted = reconciler.gateways.failback.next_due if reconciler.failback_path else None
        due = (self._tcp_probe.next_due, scouted, reconciler.health.next_due, self._shapers.next_due)
        return min((each for each in due if each is not None), default=None)

    def collect(self, now: float) -> bool:
        """Reads results; returns whether to reconcile now."""
        health, gateways = self._reconciler.health, self._reconciler.gateways
        before = (health.down, health.suspect, health.silent, health.answers)
        for outcome in self._tcp_probe.outcomes(now):
            about, name = outcome.key.purpose, outcome.key.name
            if about is Purpose.FAILBACK:
                gateways.failback.record(outcome.rtt is not None, gateways.index, now)
            tells_delay = not outcome.is_refused and (outcome.rtt is not None or health.answers)
            if about in (Purpose.LINK, Purpose.DELAY) and tells_delay:
                self._shapers.on_rtt(name, outcome.rtt, now, self._report)
            if about is not Purpose.LINK:
                continue
            if outcome.rtt is None and name not in health.down:
                self._log.event("probe failed", Level.WARNING, link=name, reason=outcome.reason)
            health.record(name, outcome.rtt)
        if before[-1] and not health.answers:
            self._shapers.reset(now, self._report)
        is_other = (health.down, health.suspect, health.silent, health.answers) != before
        return self._changes_gateway(now) or is_other

    def _changes_gateway(self, now: float) -> bool:
        gateways = self._reconciler.gateways
        if self._reconciler.fail_over(now):
            self._log.event("gateway is silent", Level.WARNING, next=gateways.address)
            return True
        if self._reconciler.fail_back(now):
            self._log.event("gateway answers again", place=gateways.address)
            return True
        return False

    def start(self, now: float) -> None:
        reconciler, target = self._reconciler, self._reconciler.target
        usual = reconciler.settings.probe.timeout.seconds
        due, busy = reconciler.health.start_due(now), self._shapers.count(now)
        for link in reconciler.links:
            by = reconciler.probe_path(link)
            if by and target and link.name in due:
                key = ProbeKey(Purpose.LINK, link.name)
                self._tcp_probe.start(key, *by, target, now, reconciler.health.timeout(link.name))
            if by and target and link.name in busy:
                self._tcp_probe.start(ProbeKey(Purpose.DELAY, link.name), *by, target, now, usual)
        scouted = reconciler.failback_path
        if scouted and reconciler.gateways.failback.start_due(now):
            name, address, there = scouted
            self._tcp_probe.start(ProbeKey(Purpose.FAILBACK), name, address, there, now, usual)

    def announce_endpoint(self, operations: Iterable[Operation], now: float) -> None:
        """Sends a packet through tunnels that have moved: the gateway sends to the address it heard from last.

        A tunnel that only receives would have nothing to send until its next keepalive.
        """
        settings, target = self._reconciler.settings, self._reconciler.target
        for operation in operations:
            config = operation.what
            if isinstance(config, TunnelConfig) and target and config.name != settings.failback_name:
                name, address = config.name, config.addresses[0]
                # A pending one left by the old path.
                key = ProbeKey(Purpose.TUNNEL, name)
                self._tcp_probe.cancel(key)
                self._tcp_probe.start(key, name, address, target, now, settings.probe.timeout.seconds)
