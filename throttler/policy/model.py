"""The policy: which subflows to hold, and to what rate. A settings file in, holds out."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from settings.failure import refused
from settings.files import Settings, load
from settings.units import PositiveRate
from throttler.sessions import Session, Subflow
from throttler.wire.segments import FourTuple

_NAME = "1 to 40 of the characters a-z, A-Z, 0-9, '_' and '-'"
_INTERFACE = "the name of a network interface, such as 'eth0'"
_LOWEST, _HIGHEST = PositiveRate.parse("64kbit"), PositiveRate.parse("400gbit")


def _rate_in_range(rate: PositiveRate) -> PositiveRate:
    # Below 64 kbit/s a full frame takes longer than the least retransmission time-out of Linux, 200 ms.
    if not _LOWEST <= rate <= _HIGHEST:
        raise ValueError(f"{PositiveRate.ACCEPTED}, from {_LOWEST} to {_HIGHEST}")
    return rate


Name = Annotated[str, Field(pattern=r"\A[A-Za-z0-9_-]{1,40}\z", description=_NAME)]
HoldRate = Annotated[PositiveRate, AfterValidator(_rate_in_range)]


class PathSettings(Settings):
    """A way to the clients."""

    # IFNAMSIZ in linux/if.h allows 15 bytes; the characters are those that tc needs no quotes for.
    interface: str = Field(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._@-]{0,14}\z", description=_INTERFACE)


class Rule(Settings):
    """Sessions with at least ``min_subflows`` active subflows: hold those on ``path`` to ``rate``."""

    name: Name = Field(description=_NAME)
    min_subflows: int = Field(2, ge=1, le=64, description="a whole number of active subflows from 1 to 64")
    path: str = Field(description="the name of one of the file's [paths] in quotes")
    rate: HoldRate = Field(description=PositiveRate.ACCEPTED)


class Policy(Settings):
    """Paths by name, and rules in the order in which they are tried."""

    paths: dict[Name, PathSettings] = Field(
        min_length=1, max_length=250, description="one table [paths.NAME] for each of 1 to 250 client-side interfaces"
    )
    rules: tuple[Rule, ...] = Field(
        strict=False, min_length=1, max_length=1000, description="1 to 1000 tables [[rules]]"
    )

    @property
    def interfaces(self) -> tuple[str, ...]:
        """The interfaces to watch: those of all paths."""
        return tuple(path.interface for path in self.paths.values())

    @property
    def shaped_interfaces(self) -> tuple[str, ...]:
        """The interfaces that need classes: those of the rules' paths, each once, sorted."""
        return tuple(sorted({self.paths[rule.path].interface for rule in self.rules}))

    def path_on(self, interface: str) -> str | None:
        """The name of the path over ``interface``."""
        return next((name for name, path in self.paths.items() if path.interface == interface), None)


def read(file: Path) -> Policy:
    """The policy in ``file``, complete in itself; raises Failure with exit 66 or 64."""
    policy = load(file, Policy)
    for number, rule in enumerate(policy.rules):
        if rule.path not in policy.paths:
            known = ", ".join(sorted(policy.paths))
            raise refused(str(file), f"rules[{number}].path", rule.path, f"one of the file's paths: {known}")
    for number in _repeated(rule.name for rule in policy.rules):
        raise refused(str(file), f"rules[{number}].name", policy.rules[number].name, "a name that no other rule has")
    for number in _repeated(policy.interfaces):
        key = f"paths.{list(policy.paths)[number]}.interface"
        raise refused(str(file), key, policy.interfaces[number], "an interface that no other path has")
    return policy


def _repeated(names: Iterable[str]) -> Iterator[int]:
    """The positions of the names that were there before."""
    seen: Counter[str] = Counter()
    for number, name in enumerate(names):
        if seen[name]:
            yield number
        seen[name] += 1


def check_interfaces(policy: Policy, file: Path, existing: Collection[str]) -> None:
    """Raise Failure, exit 64, for a path over an interface that this host does not have."""
    for name, path in policy.paths.items():
        if path.interface not in existing:
            accepted = "one of this host's interfaces: " + ", ".join(sorted(existing))
            raise refused(str(file), f"paths.{name}.interface", path.interface, accepted)


@dataclass(frozen=True)
class Hold:
    """One subflow of the session ``token`` to be held to ``rate`` on ``interface``, by the rule of that name."""

    token: int
    subflow: FourTuple
    interface: str
    rate: PositiveRate
    rule: str


def decide(sessions: Iterable[Session], policy: Policy) -> frozenset[Hold]:
    """All holds that ``policy`` wants of ``sessions``; for each subflow the first rule that matches decides."""
    return frozenset(
        Hold(session.token, subflow.name, subflow.interface, rule.rate, rule.name)
        for session in sessions
        for subflow in session.subflows
        if (rule := _rule_for(session, subflow, policy)) is not None
    )


def _rule_for(session: Session, subflow: Subflow, policy: Policy) -> Rule | None:
    for rule in policy.rules:
        if session.active >= rule.min_subflows and policy.paths[rule.path].interface == subflow.interface:
            return rule
    return None
