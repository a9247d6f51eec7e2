from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.refusals import command_error
from throttler.policy.decide import Assignment, EvaluationContext, Matcher
from throttler.policy.model import Policy, Rule, parse, read, with_rule, without_rule
from throttler.policy.preview import NAMED, preview
from throttler.policy.values import Direction, SharedBy
from throttler.sessions import Session, Subflow
from tributary.api.console import Preview, RuleResult
from tributary.mptcp.four_tuple import FourTuple
from tributary.settings.errors import Exit
from tributary.settings.units import PositiveRate

GOOD = """\
[paths.wired]
interface = "eth0"

[paths.wireless]
interface = "eth1"

[[rules]]
name = "slow"
path = "wired"
rate = "5mbit"
"""


def policy_of(text: str) -> Policy:
    return parse(text, "p.toml", Path("p.toml"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[[rules]]", "[[rule]]", "rules = '(missing)': accepted: 1 to 1000 tables [[rules]]"),
        ("5mbit", "5", "rules[0].rate = '5': accepted: a rate above zero with its unit"),
        ("5mbit", "1kbit", "from 64kbit to 400gbit"),
        ("5mbit", "401gbit", "from 64kbit to 400gbit"),
        (
            'path = "wired"',
            'path = "wirde"',
            "rules[0].path = 'wirde': accepted: one of the file's paths: wired, wirel",
        ),
        ('"slow"', '"so slow"', "rules[0].name = 'so slow': accepted: 1 to 40 of the characters"),
        ('"eth1"', '"eth0"', "paths.wireless.interface = 'eth0': accepted: an interface that no other path has, or"),
        ('"eth1"', '"eth1 root"', "paths.wireless.interface = 'eth1 root': accepted: the name of a network interface"),
        ('"eth1"', '"eth1\\nqdisc"', "paths.wireless.interface = 'eth1\\nqdisc': accepted: the name of a network"),
        ('"eth1"', '"sixteencharacter"', "paths.wireless.interface = 'sixteencharacter': accepted: the name of a"),
        ('rate = "5mbit"', 'rate = "5mbit"\n[[rules]]\nname = "slow"\npath = "wired"\nrate = "1mbit"', "rules[1].name"),
        ("[[rules]]", "[steering]\nmode = 'yes'\n[[rules]]", "steering.mode = 'yes': accepted: 'off', 'dry' or 'on'"),
        ("[[rules]]", "[limits]\nidle = '0s'\n[[rules]]", "limits.idle = '0s': accepted: a time from '1s' to"),
        ("[[rules]]", "[links.eth9]\n[[rules]]", "links.eth9 = 'eth9': accepted: one of the paths' interfaces: "),
        (GOOD, "", "paths = '(missing)': accepted: one table [paths.NAME]"),
        ("[[rules]]", "[[rules", "not valid TOML"),
        *(
            ("[[rules]]", f"[[rules]]\n{line}", message)
            for line, message in (
                ("colour = 1", "rules[0].colour = 1: accepted: one of the keys backup, borrow, "),
                ("min_subflows = 0", "rules[0].min_subflows = 0: accepted: a whole number"),
                ("min_subflows = '2'", "rules[0].min_subflows = '2': accepted: a whole number"),
                ("ports = [70000]", "rules[0].ports = [70000]: accepted: a list of ports from 1"),
                ("clients = ['10.0.0.1/8']", "accepted: a list of networks without host bits"),
                ("max_subflows = 1", "rules[0].max_subflows = 1: accepted: at least min_subflows"),
                ("hours = '25:00-26:00'", "accepted: a span of local time, such as '18:00-23:00'"),
                ("days = ['someday']", "accepted: a list of days out of mon, tue"),
                ("direction = 'down'", "accepted: 'download', 'upload' or 'both'"),
                ("shared_by = 'house'", "accepted: 'subflow', 'session', 'client' or 'rule'"),
                ("dscp = 'af99'", "accepted: a number from 0 to 63, or one of cs0 to cs7"),
                ("priority = 8", "accepted: a whole number from 0 (first) to 7 (last)"),
                ("borrow = true", "accepted: false, or a rate links.eth0.download to borrow from"),
                ("ceiling = '9mbit'", "accepted: a rate not below 'rate', beside 'borrow = true'"),
                ("quota = '5GB'", "accepted: a size per hour, day, week or month, such as"),
                ("over_quota_rate = '1mbit'", "rules[0].over_quota_rate = '1mbit': accepted: a rate beside 'quota', "),
                (
                    "quota = '5GB per day'\nover_quota_rate = '1mbit'",
                    "rules[0].shared_by = 'subflow': accepted: 'client' or 'rule', since 'quota' outlives",
                ),
            )
        ),
    ],
)
def test_a_wrong_policy_gets_one_line(old: str, new: str, message: str) -> None:
    with command_error(Exit.USAGE, message, begins="p.toml"):
        policy_of(GOOD.replace(old, new))


@pytest.fixture
def policy() -> Policy:
    return policy_of(GOOD)


def subflow(number: int, interface: str, backup: bool = False) -> Subflow:
    name = FourTuple("10.0.1.1", 3128, f"10.0.{number}.2", 40000)
    return Subflow(name, interface, initial=number == 1, backup=backup, since=0)


def context(policy: Policy) -> EvaluationContext:
    """Every rule is active."""
    return EvaluationContext(frozenset(rule.name for rule in policy.rules))


def throttled_by(policy: Policy, *subflows: Subflow) -> dict[str, str]:
    """Client address to rule."""
    matcher, session = Matcher(policy), Session(7, 0, subflows)
    found = {subflow.name.remote: matcher.rule(session, subflow, context(policy)) for subflow in subflows}
    return {remote: rule.name for remote, rule in found.items() if rule is not None}


def assigned(policy: Policy, *subflows: Subflow, given: EvaluationContext | None = None) -> list[list[Assignment]]:
    """What the first rule assigns to each subflow of a session."""
    session = Session(7, 0, subflows)
    rule, now = policy.rules[0], given or context(policy)
    return [list(Matcher(policy).assignments(rule, session, each, now)) for each in subflows]


def test_from_the_least_number_on_every_subflow_on_the_path_is_throttled_and_below_it_none(policy: Policy) -> None:
    session = (subflow(1, "eth0"), subflow(2, "eth1"), subflow(3, "eth0"))
    assert throttled_by(policy, session[0]) == {}
    assert throttled_by(policy, *session) == {"10.0.1.2": "slow", "10.0.3.2": "slow"}
    (one,), *_ = assigned(policy, *session)
    assert (one.subflow, one.interface, one.direction) == (session[0].name, "eth0", Direction.DOWNLOAD)
    assert (one.rates.rate, one.rates.ceiling, one.owner.shared_by) == (5_000_000, 5_000_000, SharedBy.SUBFLOW)


def test_a_rule_counts_no_backups_but_throttles_them_and_is_passed_over_out_of_force(policy: Policy) -> None:
    assert throttled_by(policy, subflow(1, "eth0"), subflow(2, "eth1", backup=True)) == {}
    assert throttled_by(policy, subflow(1, "eth1"), subflow(2, "eth1"), subflow(3, "eth0", backup=True)) == {
        "10.0.3.2": "slow"
    }
    session = Session(7, 0, (subflow(1, "eth0"), subflow(2, "eth1")))
    assert Matcher(policy).rule(session, session.subflows[0], EvaluationContext(frozenset())) is None


def test_the_first_rule_that_matches_decides() -> None:
    more = '[[rules]]\nname = "three"\npath = "wired"\nrate = "1mbit"\nmin_subflows = 3\n\n[[rules]]\nname = "slow"'
    policy = policy_of(GOOD.replace('[[rules]]\nname = "slow"', more))
    two = (subflow(1, "eth0"), subflow(2, "eth1"))
    assert throttled_by(policy, *two) == {"10.0.1.2": "slow"}
    assert throttled_by(policy, *two, subflow(3, "eth1")) == {"10.0.1.2": "three"}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("subflow_type = 'initial'", {"10.0.1.2"}),
        ("subflow_type = 'join'", {"10.0.2.2", "10.0.3.2"}),
        ("backup = true", {"10.0.3.2"}),
        ("backup = false", {"10.0.1.2", "10.0.2.2"}),
        ("ports = [3128, 8080]", {"10.0.1.2", "10.0.2.2", "10.0.3.2"}),
        ("ports = [8080]", set()),
        ("clients = ['10.0.2.0/24', 'fd00::/8']", {"10.0.2.2"}),
        ("max_subflows = 2", {"10.0.1.2", "10.0.2.2", "10.0.3.2"}),
        ("min_subflows = 3", set()),
    ],
)
def test_each_condition_chooses_subflows(condition: str, expected: set[str]) -> None:
    policy = policy_of(GOOD.replace('path = "wired"', condition))
    session = (subflow(1, "eth0"), subflow(2, "eth1"), subflow(3, "eth0", backup=True))
    assert set(throttled_by(policy, *session)) == expected


def test_a_rule_without_an_action_is_an_exception() -> None:
    exempt = '[[rules]]\nname = "exempt"\nclients = ["10.0.1.0/24"]\n\n[[rules]]\nname = "slow"'
    policy = policy_of(GOOD.replace('[[rules]]\nname = "slow"', exempt))
    session = (subflow(1, "eth0"), subflow(2, "eth0"))
    assert throttled_by(policy, *session) == {"10.0.1.2": "exempt", "10.0.2.2": "slow"}
    assert assigned(policy, *session)[0] == []


def test_the_path_that_names_clients_comes_before_the_one_that_takes_the_rest() -> None:
    text = GOOD.replace('interface = "eth1"', 'interface = "eth0"\nclients = ["10.0.2.0/24"]')
    matcher = Matcher(policy_of(text))
    assert [matcher.path(subflow(number, "eth0")) for number in (1, 2)] == ["wired", "wireless"]
    assert matcher.path(subflow(1, "eth7")) is None


def test_an_explanation_says_why_each_rule_does_not_apply_up_to_the_one_that_does() -> None:
    conditions = {"three": "min_subflows = 3", "mail": "ports = [25]", "late": "hours = '01:00-02:00'"}
    more = "".join(f'[[rules]]\nname = "{name}"\n{condition}\n\n' for name, condition in conditions.items())
    policy = policy_of(GOOD.replace("[[rules]]", more + "[[rules]]", 1))
    session = Session(7, 0, (subflow(1, "eth0"), subflow(2, "eth1")))
    active = EvaluationContext(frozenset({"three", "mail", "slow"}))
    reasons = Matcher(policy).explain(session, session.subflows[0], active)
    assert reasons == [
        RuleResult(rule="three", applies=False, reason="its session has 2 active subflows, not 3 or more"),
        RuleResult(rule="mail", applies=False, reason="this host's port is 3128, not 25"),
        RuleResult(rule="late", applies=False, reason="it is not active now: 01:00-02:00"),
        RuleResult(rule="slow", applies=True, reason=None),
    ]


@pytest.mark.parametrize(
    ("shared_by", "keys"),
    [
        ("subflow", ["10.0.1.1:3128 > 10.0.1.2:40000", "[fd00::1]:3128 > [fd00:1:2:3:4:5:6:7]:40000"]),
        ("session", ["00000007", "00000007"]),
        ("client", ["10.0.1.2", "fd00:1:2:3::/64"]),
        ("rule", ["slow", "slow"]),
    ],
)
def test_shared_by_says_who_shares_a_class(shared_by: str, keys: list[str]) -> None:
    policy = policy_of(GOOD.replace("[[rules]]", f'[[rules]]\nshared_by = "{shared_by}"'))
    ipv6 = Subflow(FourTuple("fd00::1", 3128, "fd00:1:2:3:4:5:6:7", 40000), "eth0", False, False, 0)
    assert [one.owner.key for (one,) in assigned(policy, subflow(1, "eth0"), ipv6)] == keys


def test_a_rule_for_both_directions_gives_two_assignments_and_borrowing_takes_the_rate_of_the_link() -> None:
    more = '[links.eth0]\ndownload = "100mbit"\nupload = "20mbit"\n\n[[rules]]\ndirection = "both"\nborrow = true'
    both, _ = assigned(policy_of(GOOD.replace("[[rules]]", more)), subflow(1, "eth0"), subflow(2, "eth1"))
    expected = [("download", 5_000_000, 100_000_000), ("upload", 5_000_000, 20_000_000)]
    assert [(str(one.direction), one.rates.rate, one.rates.ceiling) for one in both] == expected


def test_who_has_spent_the_quota_gets_the_slower_rate() -> None:
    more = '[[rules]]\nshared_by = "client"\nquota = "5GB per day"\nover_quota_rate = "1mbit"'
    policy = policy_of(GOOD.replace("[[rules]]", more))
    session = (subflow(1, "eth0"), subflow(2, "eth0"))
    (spender,), _ = assigned(policy, *session)
    exhausted = EvaluationContext(frozenset({"slow"}), {spender.owner})
    assert [one.rates.rate for (one,) in assigned(policy, *session, given=exhausted)] == [1_000_000, 5_000_000]


def test_a_rule_set_live_replaces_its_namesake_or_comes_first(policy: Policy) -> None:
    slower = policy.rules[0].model_copy(update={"rate": PositiveRate.parse("1mbit")})
    assert with_rule(policy, slower, last=False).rules == (slower,)
    other = slower.model_copy(update={"name": "other"})
    assert [rule.name for rule in with_rule(policy, other, last=False).rules] == ["other", "slow"]
    assert [rule.name for rule in with_rule(policy, other, last=True).rules] == ["slow", "other"]
    assert without_rule(policy, "slow").rules == ()
    with command_error(Exit.USAGE, begins="unset: rule = 'fast': accepted: the name of a rule: slow"):
        without_rule(policy, "fast")


def test_rules_of_drop_ins_come_first_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(GOOD)
    folder = tmp_path / "policy.d"
    folder.mkdir()
    for name in ("b", "a"):
        (folder / f"{name}.toml").write_text(f'[[rules]]\nname = "{name}"\nrate = "1mbit"\n')
    (folder / "c.toml.old").write_text("nonsense")
    assert [rule.name for rule in read(file).rules][:2] == ["a", "b"]
    for text in ('[[rules]]\nname = "c"\npath = "nowhere"\n', '[paths.x]\ninterface = "eth9"\n'):
        (folder / "c.toml").write_text(text)
        with command_error(Exit.USAGE, "policy.d/c.toml: "):
            read(file)


SESSIONS = [
    Session(7, 0, (subflow(1, "eth0"), subflow(2, "eth1"))),
    Session(8, 0, (subflow(3, "eth0"), subflow(4, "eth0"))),
    Session(9, 0, (subflow(5, "eth1"),)),
]
Tried = Callable[..., Preview]


@pytest.fixture
def tried() -> Tried:
    policy = policy_of(GOOD)

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


def test_a_rule_that_is_not_active_now_is_tried_as_if_it_were_and_an_exception_acts_on_nothing(tried: Tried) -> None:
    assert tried(name="night", path="wireless", hours="03:00-03:01", rate="1mbit").subflows == 1
    assert tried(name="free", path="wired").acts is False


def test_of_many_subflows_the_first_are_named(tried: Tried) -> None:
    many = [Session(each, 0, (subflow(1, "eth0"), subflow(2, "eth0"))) for each in range(NAMED)]
    found = tried(many, name="new", rate="1mbit")
    assert (found.subflows, len(found.first)) == (2 * NAMED, NAMED)
