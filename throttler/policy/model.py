"""The policy's settings file: links, paths and rules. Reads and checks it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field

from throttler.policy import values
from throttler.policy.values import (
    Days,
    Direction,
    Directions,
    Dscp,
    Interface,
    Name,
    Networks,
    Quota,
    RuleRate,
    SharedBy,
    Silence,
    SteeringMode,
    SubflowType,
)
from tributary.settings import files
from tributary.settings.errors import invalid_value
from tributary.settings.files import Settings, drop_ins, load
from tributary.settings.hours import HOURS, Hours
from tributary.settings.privacy import ACCEPTED, Privacy
from tributary.settings.units import Duration, PositiveRate

_RATE = PositiveRate.ACCEPTED
CLASSES = 16_384
"""Classes at one time, in all devices together; their minor numbers are 1 to this."""
PER_CLIENT = 64
"""256 clients can use their whole share at once; a household behind one address seldom needs more."""
IDLE = 7440
"""Seconds, 2 hours and 4 minutes: a NAT on the path may forget an idle connection after that (RFC 5382 section 5)."""


class LinkSettings(Settings):
    """An interface's capacity in each direction; without a rate only throttled subflows are shaped."""

    download: RuleRate | None = Field(None, title="what it carries towards the clients")
    upload: RuleRate | None = Field(None, title="what it carries from the clients")


class PathSettings(Settings):
    """A path to clients: an interface, or those of its clients whose addresses are in some networks."""

    interface: Interface = Field(
        title="this host's interface by which its subflows leave", description=values.INTERFACE
    )
    clients: Networks = Field(
        (),
        strict=False,
        title="only these; none: clients of no other path of the interface",
        description=values.NETWORKS,
    )


class Rule(Settings):
    """Selects subflows (every given key must match), and acts on them.

    A rule without an action lets its subflows pass: an exception to the rules that follow.
    """

    name: Name = Field(title="its name in log, status and metrics", description=values.NAME)

    path: str | None = Field(
        None, title="subflows on this path; none: on any", description="the name of one of the [paths] in quotes"
    )
    clients: Networks = Field((), strict=False, title="the client's address on that path", description=values.NETWORKS)
    ports: tuple[int, ...] = Field(
        (),
        strict=False,
        title="this host's port, such as the proxy's",
        description="a list of ports from 1 to 65535, such as [3128]",
    )
    subflow_type: SubflowType | None = Field(
        None,
        strict=False,
        title="the first subflow of its session, or one that joined",
        description="'initial' or 'join'",
    )
    backup: bool | None = Field(None, title="asked for by the client (MP_JOIN, MP_PRIO)")
    min_subflows: int = Field(
        2,
        ge=1,
        le=64,
        title="active subflows in its session, at least; backups do not count (RFC 8684 section 3.3.8)",
        description="a whole number of active subflows from 1 to 64",
    )
    max_subflows: int | None = Field(
        None, ge=1, le=64, title="... at most", description="a whole number of active subflows from 1 to 64"
    )
    hours: Hours | None = Field(None, title="local time of day, end not included; may pass midnight", description=HOURS)
    days: Days = Field((), strict=False, title="days on which the hours begin", description=values.DAYS)

    direction: Directions = Field(
        Directions.DOWNLOAD,
        strict=False,
        title="each has its own class, with the same rate",
        description="'download', 'upload' or 'both'",
    )
    rate: RuleRate | None = Field(None, title="the limit, or with borrow what is guaranteed; none: as fast as the link")
    borrow: bool = Field(False, title="may use what the link has to spare; needs its rate and the link's")
    ceiling: RuleRate | None = Field(None, title="up to this rate when it borrows, not below rate; none: the link's")
    priority: int = Field(
        3,
        ge=0,
        le=7,
        title="who borrows first; packets that are not throttled have 3",
        description="a whole number from 0 (first) to 7 (last)",
    )
    dscp: Dscp | None = Field(None, title="code point written into packets (RFC 2474)", description=values.DSCP)
    quota: Quota | None = Field(
        None,
        title="how much may pass in each period at rate; needs over_quota_rate, and shared_by client or rule",
        description=values.QUOTA,
    )
    over_quota_rate: RuleRate | None = Field(None, title="once the quota is used up, until the next period")
    shared_by: SharedBy = Field(
        SharedBy.SUBFLOW,
        strict=False,
        title="who shares one class and its rate",
        description="'subflow', 'session', 'client' or 'rule'",
    )
    dry_run: bool = Field(False, title="count only, throttle nothing")

    @property
    def acts(self) -> bool:
        """Whether its subflows get a class."""
        return not self.dry_run and (self.rate is not None or self.dscp is not None or self.quota is not None)


Rules = Annotated[
    tuple[Rule, ...], Field(strict=False, min_length=1, max_length=1000, description="1 to 1000 tables [[rules]]")
]


class LimitSettings(Settings):
    """One client's share of classes, and the time-out of silent subflows."""

    classes_per_client: int = Field(
        PER_CLIENT,
        ge=1,
        le=CLASSES,
        title="classes of single subflows and sessions per client address; raise it behind a carrier's NAT",
        description=f"a whole number of classes from 1 to {CLASSES}",
    )
    idle: Silence = Field(
        Duration(IDLE * 10**6),
        title="sniffer: time without a packet after which a throttled subflow is gone (RFC 5382)",
    )


class SteeringSettings(Settings):
    """Whether a path is taken out of running sessions that are faster without it."""

    mode: SteeringMode = Field(
        SteeringMode.OFF,
        strict=False,
        title="dry: only count what would be tried; on: needs the kernel source, and net.mptcp.pm_type=1",
        description="'off', 'dry' or 'on'",
    )


class Policy(Settings):
    """Paths by name, links by interface, limits, steering, and rules in order."""

    privacy: Privacy = Field("full", title="clients' addresses in status, explanations and log", description=ACCEPTED)
    paths: dict[Name, PathSettings] = Field(
        min_length=1, max_length=250, description="one table [paths.NAME] for each of 1 to 250 ways to the clients"
    )
    links: dict[Interface, LinkSettings] = Field(
        {}, description="tables [links.INTERFACE] with the rates of the paths' interfaces"
    )
    limits: LimitSettings = Field(LimitSettings())
    steering: SteeringSettings = Field(SteeringSettings())
    rules: Rules

    @property
    def interfaces(self) -> tuple[str, ...]:
        """The interfaces of all paths, each once, in the file's order."""
        return tuple(dict.fromkeys(path.interface for path in self.paths.values()))

    def link_rate(self, interface: str, direction: Direction) -> PositiveRate | None:
        """The capacity of ``interface`` in that direction, None if the policy gives none."""
        link = self.links.get(interface)
        if link is None:
            return None
        return link.download if direction is Direction.DOWNLOAD else link.upload

    def interfaces_of(self, rule: Rule) -> tuple[str, ...]:
        """The interfaces on which ``rule`` can match."""
        return self.interfaces if rule.path is None else (self.paths[rule.path].interface,)


class DropIn(Settings):
    """Rules that come before those of the policy's file."""

    rules: Rules


def read(file: Path) -> Policy:
    """The policy in ``file`` and its drop-ins, complete; raises CommandError with exit 66 or 64."""
    return _with_drop_ins(load(file, Policy), file)


def parse(text: str, where: str, file: Path) -> Policy:
    """``text``, called ``where`` in messages, as if it stood in ``file``; raises CommandError as ``read`` does."""
    return _with_drop_ins(files.check(files.parsed(text, where), Policy, where), file)


def _with_drop_ins(policy: Policy, file: Path) -> Policy:
    check(policy, str(file))
    for drop_in in sorted(drop_ins(file).glob("*.toml"), reverse=True):
        policy = policy.model_copy(update={"rules": (*load(drop_in, DropIn).rules, *policy.rules)})
        check(policy, str(drop_in))
    return policy


def check(policy: Policy, where: str) -> None:
    """Raise CommandError, exit 64, if parts of ``policy`` contradict one another."""
    for key, value, accepted in _contradictions(policy):
        raise invalid_value(where, key, value, accepted)


_Contradiction = tuple[str, object, str]


def _contradictions(policy: Policy) -> Iterator[_Contradiction]:
    for number in _repeated(rule.name for rule in policy.rules):
        yield f"rules[{number}].name", policy.rules[number].name, "a name that no other rule has"
    whole = [name for name, path in policy.paths.items() if not path.clients]
    for number in _repeated(policy.paths[name].interface for name in whole):
        key = f"paths.{whole[number]}.interface"
        yield key, policy.paths[whole[number]].interface, "an interface that no other path has, or 'clients' beside it"
    for interface in policy.links:
        if interface not in policy.interfaces:
            yield f"links.{interface}", interface, f"one of the paths' interfaces: {', '.join(policy.interfaces)}"
    for number, rule in enumerate(policy.rules):
        for key, value, accepted in _contradictions_in(rule, policy):
            yield f"rules[{number}].{key}", value, accepted


def _contradictions_in(rule: Rule, policy: Policy) -> Iterator[_Contradiction]:
    if rule.path is not None and rule.path not in policy.paths:
        yield "path", rule.path, f"one of the file's paths: {', '.join(sorted(policy.paths))}"
        return
    if not all(1 <= port <= 65535 for port in rule.ports):
        yield "ports", list(rule.ports), "a list of ports from 1 to 65535, such as [3128]"
    if rule.max_subflows is not None and rule.max_subflows < rule.min_subflows:
        yield "max_subflows", rule.max_subflows, f"at least min_subflows, which is {rule.min_subflows}"
    yield from _contradictions_of_rates(rule, policy)
    if (rule.quota is None) != (rule.over_quota_rate is None):
        yield "over_quota_rate", str(rule.over_quota_rate), "a rate beside 'quota', and only there"
    if rule.quota is not None and rule.shared_by not in (SharedBy.CLIENT, SharedBy.RULE):
        yield "shared_by", str(rule.shared_by), "'client' or 'rule', since 'quota' outlives subflows and sessions"


def _contradictions_of_rates(rule: Rule, policy: Policy) -> Iterator[_Contradiction]:
    if rule.borrow and rule.rate is None:
        yield "borrow", rule.borrow, "false, or a 'rate' beside it that is guaranteed"
    if rule.ceiling is not None and (not rule.borrow or rule.rate is None or rule.ceiling < rule.rate):
        yield "ceiling", str(rule.ceiling), "a rate not below 'rate', beside 'borrow = true'"
    for interface in policy.interfaces_of(rule) if rule.borrow else ():
        for direction in rule.direction.each:
            if policy.link_rate(interface, direction) is None:
                accepted = f"false, or a rate links.{interface}.{direction} to borrow from"
                yield "borrow", rule.borrow, accepted


def _repeated(names: Iterable[str]) -> Iterator[int]:
    """The positions of repeated names."""
    seen: Counter[str] = Counter()
    for number, name in enumerate(names):
        if seen[name]:
            yield number
        seen[name] += 1


def with_rule(policy: Policy, rule: Rule, last: bool) -> Policy:
    """``policy`` with ``rule`` in the place of the one of its name, or else before (or after) all others."""
    names = [other.name for other in policy.rules]
    rules = list(policy.rules)
    if rule.name in names:
        rules[names.index(rule.name)] = rule
    else:
        rules.insert(len(rules) if last else 0, rule)
    return policy.model_copy(update={"rules": tuple(rules)})


def without_rule(policy: Policy, name: str) -> Policy:
    """``policy`` without the rule ``name``; raises CommandError, exit 64, if it has none of that name."""
    rest = tuple(rule for rule in policy.rules if rule.name != name)
    if len(rest) == len(policy.rules):
        known = ", ".join(rule.name for rule in policy.rules) or "none is active"
        raise invalid_value("unset", "rule", name, f"the name of a rule: {known}")
    return policy.model_copy(update={"rules": rest})
