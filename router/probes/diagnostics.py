"""The sockets of links' further checks: MTU, MPTCP, login pages. The decisions are in pure modules."""

from collections.abc import Collection
from contextlib import ExitStack

from router.probes.mptcp import TIMEOUT, Verdict
from router.probes.mtu_probe import MtuProbe
from router.probes.portal_probe import PortalProbe, announced_page
from router.probes.tcp_probe import TcpProbe
from router.state.reconciler import Reconciler
from tributary.closing import Closing
from tributary.daemons.logs import Level, Log
from tributary.daemons.loop import Descriptor
from tributary.mptcp.info import IPPROTO_MPTCP


class LinkDiagnostics(Closing):
    """The sockets of the checks; a context manager."""

    def __init__(self, reconciler: Reconciler, log: Log) -> None:
        self._reconciler, self._log = reconciler, log
        with ExitStack() as stack:
            self._mtu_probe = stack.enter_context(MtuProbe())
            self._mptcp_probe = stack.enter_context(TcpProbe[str](IPPROTO_MPTCP))
            self._plain_probe = stack.enter_context(TcpProbe[str]())
            self._portal_probe = stack.enter_context(PortalProbe())
            self._probes = (self._mtu_probe, self._mptcp_probe, self._plain_probe, self._portal_probe)
            self._stack = stack.pop_all()

    def close(self) -> None:
        self._stack.close()

    @property
    def descriptors(self) -> Collection[Descriptor]:
        return self._probes

    @property
    def next_due(self) -> float | None:
        """When there is something to do without a readable socket."""
        pure = (self._reconciler.paths, self._reconciler.verdicts, self._reconciler.portals)
        return min((due for each in (*self._probes, *pure) if (due := each.next_due) is not None), default=None)

    def turn(self, now: float) -> bool:
        """Reads answers and starts the checks that are due; returns whether to reconcile now."""
        paths, portals = self._reconciler.paths, self._reconciler.portals
        before = (dict(paths.results), dict(portals.results))
        self._measure_mtu(now)
        self._check_mptcp(now)
        self._check_portals(now)
        return (paths.results, portals.results) != before

    def _measure_mtu(self, now: float) -> None:
        paths = self._reconciler.paths
        before, asked = dict(paths.results), list[str]()
        for result in self._mtu_probe.outcomes(now):
            asked.append(result.link)
            if result.rtt is not None:
                paths.answered(result.link, result.rtt, now)
            elif result.mtu is not None:
                paths.too_large(result.link, result.mtu, now)
            else:
                paths.lost(result.link, now)
        paths.recheck(self._reconciler.health.silent, now)
        for name in (*asked, *paths.start_due(now)):
            if probe := paths.next_probe(name):
                self._mtu_probe.start(name, *probe, now)
        for name, found in paths.results.items():
            if before.get(name) != found:
                self._log.event("largest packet measured", link=name, mtu=found)

    def _check_mptcp(self, now: float) -> None:
        verdicts = self._reconciler.verdicts
        before = dict(verdicts.results)
        for outcome in self._mptcp_probe.outcomes(now):
            if verdicts.on_mptcp(outcome.key, outcome.is_mptcp, outcome.is_refused, now):
                self._connect(self._plain_probe, outcome.key, now)
        for outcome in self._plain_probe.outcomes(now):
            verdicts.on_plain_tcp(outcome.key, outcome.rtt is not None and not outcome.is_refused, now)
        for name in verdicts.start_due(now):
            self._connect(self._mptcp_probe, name, now)
        for name, found in verdicts.results.items():
            if before.get(name) != found and found is not Verdict.MULTIPATH:
                self._log.event("no MPTCP", Level.WARNING, link=name, connection=found)

    def _connect(self, tcp_probe: TcpProbe[str], name: str, now: float) -> None:
        if path := self._reconciler.verdicts.paths.get(name):
            tcp_probe.cancel(name)
            tcp_probe.start(name, path.interface, path.source, path.target, now, TIMEOUT)

    def _check_portals(self, now: float) -> None:
        portals = self._reconciler.portals
        for link, answer in self._portal_probe.responses(now):
            path = portals.paths.get(link)
            announced = announced_page(path[0]) if path else None
            portals.on_response(link, answer, announced, now)
        for name in portals.start_due(now):
            if path := portals.paths.get(name):
                self._portal_probe.start(name, path, now)
