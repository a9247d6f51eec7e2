"""What is found out about links beside whether they work: carried out here, decided by the pure parts that it asks."""

from collections.abc import Collection
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from router import lease
from router.asker import Asker
from router.keeper import Keeper
from router.multipath import TIMEOUT, Verdict
from router.pinger import Pinger
from router.prober import Prober
from tributary.daemons.logs import Level, Log
from tributary.daemons.loop import Descriptor
from tributary.mptcp.info import IPPROTO_MPTCP


class Examination:
    """The sockets by which links are examined; a context manager."""

    def __init__(self) -> None:
        with ExitStack() as stack:
            self._pinger = stack.enter_context(Pinger())
            self._multipath = stack.enter_context(Prober[str](IPPROTO_MPTCP))
            self._plain = stack.enter_context(Prober[str]())
            self._asker = stack.enter_context(Asker())
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    @property
    def descriptors(self) -> Collection[Descriptor]:
        """For the loop's selector."""
        return (self._pinger, self._multipath, self._plain, self._asker)

    def next_due(self, keeper: Keeper) -> float | None:
        """When there is something to do though nothing is readable."""
        sockets = (self._pinger, self._multipath, self._plain, self._asker)
        pure = (keeper.paths, keeper.verdicts, keeper.portals)
        return min((due for each in (*sockets, *pure) if (due := each.next_due) is not None), default=None)

    def turn(self, keeper: Keeper, now: float, log: Log) -> bool:
        """Hear answers, ask what is due; returns whether something is known now by which the next look should go."""
        before = (dict(keeper.paths.found), dict(keeper.portals.found))
        self._measure(keeper, now, log)
        self._try_multipath(keeper, now, log)
        self._look_for_logins(keeper, now)
        return (keeper.paths.found, keeper.portals.found) != before

    def _measure(self, keeper: Keeper, now: float, log: Log) -> None:
        paths, before, asked = keeper.paths, dict(keeper.paths.found), []
        for echo in self._pinger.outcomes(now):
            asked.append(echo.link)
            if echo.rtt is not None:
                paths.answered(echo.link, echo.rtt, now)
            elif echo.most is not None:
                paths.too_large(echo.link, echo.most, now)
            else:
                paths.lost(echo.link, now)
        paths.doubt(keeper.health.silent, now)
        for name in (*asked, *paths.begin(now)):
            if probe := paths.next_probe(name):
                path, size, timeout = probe
                self._pinger.start(name, path.interface, path.source, path.target, size, now, timeout)
        for name, found in paths.found.items():
            if before.get(name) != found:
                log.event("largest packet measured", link=name, mtu=found)

    def _try_multipath(self, keeper: Keeper, now: float, log: Log) -> None:
        verdicts, before = keeper.verdicts, dict(keeper.verdicts.found)
        for outcome in self._multipath.outcomes(now):
            if verdicts.told(outcome.about, outcome.is_mptcp, outcome.is_refused, now):
                self._connect(self._plain, keeper, outcome.about, now)
        for outcome in self._plain.outcomes(now):
            verdicts.told_plainly(outcome.about, outcome.rtt is not None and not outcome.is_refused, now)
        for name in verdicts.begin(now):
            self._connect(self._multipath, keeper, name, now)
        for name, found in verdicts.found.items():
            if before.get(name) != found and found is not Verdict.MULTIPATH:
                log.event("no MPTCP", Level.WARNING, link=name, connection=found)

    @staticmethod
    def _connect(prober: Prober[str], keeper: Keeper, name: str, now: float) -> None:
        if way := keeper.verdicts.way(name):
            prober.forget(name)
            prober.start(name, way.interface, way.source, way.target, now, TIMEOUT)

    def _look_for_logins(self, keeper: Keeper, now: float) -> None:
        for reply in self._asker.replies(now):
            way = keeper.portals.way(reply.link)
            keeper.portals.told(reply.link, reply.answer, lease.login_page(way.interface) if way else None, now)
        for name in keeper.portals.begin(now):
            if way := keeper.portals.way(name):
                self._asker.start(name, way, now)
