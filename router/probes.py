"""Whether links lead to the gateway: probes are begun and heard here; what is due and what follows, the keeper says."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from router.difference import SetTunnel, Step
from router.keeper import Keeper
from router.prober import Prober
from router.quality import Quality, Tell
from tributary.daemons.logs import Level, Log


class About(Enum):
    """What a probe asks."""

    LINK = "whether a link leads to the gateway"
    DELAY = "how long that takes, of a link whose rates move"
    TUNNEL = "nothing: it says where a tunnel is now"
    SCOUT = "whether an earlier gateway answers"


@dataclass(frozen=True)
class Question:
    """One probe, of the link or the interface with this name."""

    about: About
    name: str = ""


class Probes:
    """Those of links, of an earlier gateway, and of the delay of links whose rates move."""

    def __init__(self, prober: Prober[Question], keeper: Keeper, quality: Quality, log: Log, tell: Tell) -> None:
        self._prober, self._keeper, self._quality = prober, keeper, quality
        self._log, self._tell = log, tell

    @property
    def next_due(self) -> float | None:
        """When there is something to do though nothing is readable."""
        keeper = self._keeper
        scouted = keeper.gateways.scout.next_due if keeper.scouted_by else None
        due = (self._prober.next_due, scouted, keeper.health.next_due, self._quality.next_due)
        return min((each for each in due if each is not None), default=None)

    def hear(self, now: float) -> bool:
        """Hear answers; returns whether something is known now by which the next look should go."""
        health, gateways = self._keeper.health, self._keeper.gateways
        before = (health.dead, health.shunned, health.silent, health.answers)
        for outcome in self._prober.outcomes(now):
            about, name = outcome.about.about, outcome.about.name
            if about is About.SCOUT:
                gateways.scout.told(outcome.rtt is not None, gateways.number, now)
            tells_delay = not outcome.is_refused and (outcome.rtt is not None or health.answers)
            if about in (About.LINK, About.DELAY) and tells_delay:
                self._quality.told(name, outcome.rtt, now, self._tell)
            if about is not About.LINK:
                continue
            if outcome.rtt is None and name not in health.dead:
                self._log.event("probe failed", Level.WARNING, link=name, reason=outcome.reason)
            health.told(name, outcome.rtt)
        if before[-1] and not health.answers:
            self._quality.forget(now, self._tell)
        is_other = (health.dead, health.shunned, health.silent, health.answers) != before
        return self._changes_gateway(now) or is_other

    def _changes_gateway(self, now: float) -> bool:
        gateways = self._keeper.gateways
        if self._keeper.give_up_gateway(now):
            self._log.event("gateway is silent", Level.WARNING, next=gateways.place)
            return True
        if self._keeper.return_to_gateway(now):
            self._log.event("gateway answers again", place=gateways.place)
            return True
        return False

    def begin(self, now: float) -> None:
        """Begin those that are due."""
        keeper, target = self._keeper, self._keeper.target
        usual = keeper.settings.probe.timeout.seconds
        due, busy = keeper.health.begin(now), self._quality.count(now)
        for link in keeper.links:
            by = keeper.probed_by(link)
            if by and target and link.name in due:
                question = Question(About.LINK, link.name)
                self._prober.start(question, *by, target, now, keeper.health.timeout(link.name))
            if by and target and link.name in busy:
                self._prober.start(Question(About.DELAY, link.name), *by, target, now, usual)
        scouted = keeper.scouted_by
        if scouted and keeper.gateways.scout.begin(now):
            name, address, there = scouted
            self._prober.start(Question(About.SCOUT), name, address, there, now, usual)

    def speak_up(self, steps: Iterable[Step], now: float) -> None:
        """Have tunnels that leave another way say where they are now: the gateway sends to where it heard them last.

        A tunnel that only brings in would have nothing to send until its next keepalive.
        """
        settings, target = self._keeper.settings, self._keeper.target
        for step in steps:
            if isinstance(step, SetTunnel) and target and step.setup.name != settings.scout_name:
                name, address = step.setup.name, step.setup.address
                # One that is under way left the old way.
                question = Question(About.TUNNEL, name)
                self._prober.forget(question)
                self._prober.start(question, name, address, target, now, settings.probe.timeout.seconds)
