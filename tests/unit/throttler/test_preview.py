from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.unit.throttler.test_policy import GOOD, policy_of, subflow
from throttler.policy.decide import Matcher
from throttler.policy.model import Rule, with_rule
from throttler.policy.preview import NAMED, preview
from throttler.sessions import Session
from tributary.api.console import Preview

SESSIONS = [
    Session(7, 0, (subflow(1, "eth0"), subflow(2, "eth1"))),
    Session(8, 0, (subflow(3, "eth0"), subflow(4, "eth0"))),
    Session(9, 0, (subflow(5, "eth1"),)),
]
Tried = Callable[..., Preview]


@pytest.fixture
def tried(tmp_path: Path) -> Tried:
    policy = policy_of(GOOD, tmp_path)

    def try_rule(sessions: Iterable[Session] = SESSIONS, **keys: object) -> Preview:
        rule = Rule.model_validate(keys)
        active = frozenset(each.name for each in policy.rules)
        return preview(Matcher(policy), with_rule(policy, rule, last=False), rule, sessions, active)

    return try_rule


def test_a_new_rule_takes_subflows_of_another_one_and_nobody_elses(tried: Tried) -> None:
    found = tried(name="new", path="wired", rate="1mbit")
    assert (found.acts, found.sessions, found.subflows, found.taken, found.released) == (True, 2, 3, {"slow": 3}, 0)
    assert [(each.token, each.path, each.instead_of) for each in found.first] == [
        ("00000007", "wired", "slow"),
        ("00000008", "wired", "slow"),
        ("00000008", "wired", "slow"),
    ]


def test_a_rule_that_replaces_itself_says_what_it_lets_go(tried: Tried) -> None:
    found = tried(name="slow", path="wireless", rate="1mbit")
    assert (found.sessions, found.subflows, found.taken, found.released) == (1, 1, {}, 3)


def test_a_rule_that_is_not_active_now_is_shown_as_if_it_were(tried: Tried) -> None:
    assert tried(name="night", path="wireless", hours="03:00-03:01", rate="1mbit").subflows == 1


def test_an_exception_acts_on_nothing(tried: Tried) -> None:
    assert tried(name="free", path="wired").acts is False


def test_of_many_subflows_the_first_are_named(tried: Tried) -> None:
    many = [Session(each, 0, (subflow(1, "eth0"), subflow(2, "eth0"))) for each in range(NAMED)]
    found = tried(many, name="new", rate="1mbit")
    assert (found.subflows, len(found.first)) == (2 * NAMED, NAMED)
