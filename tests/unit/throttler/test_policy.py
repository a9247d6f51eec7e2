from pathlib import Path

import pytest

from settings.failure import Exit, Failure
from settings.units import PositiveRate
from throttler.policy.model import Policy, check_interfaces, decide, read
from throttler.sessions import Session, Subflow
from throttler.wire.segments import FourTuple

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


def policy_of(text: str, folder: Path) -> Policy:
    file = folder / "p.toml"
    file.write_text(text)
    return read(file)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[[rules]]", "[[rules]]\ncolour = 1", "rules[0].colour = 1: accepted: one of the keys min_subflows, name, "),
        ("[[rules]]", "[[rule]]", "rules = '(missing)': accepted: 1 to 1000 tables [[rules]]"),
        ("5mbit", "5", "rules[0].rate = '5': accepted: a rate above zero with its unit"),
        ('"5mbit"', "5", "rules[0].rate = 5: accepted: a rate above zero with its unit"),
        ("5mbit", "-5mbit", "rules[0].rate = '-5mbit': accepted: a rate above zero with its unit"),
        ("5mbit", "0mbit", "rules[0].rate = '0mbit': accepted: a rate above zero with its unit"),
        ("5mbit", "1kbit", "from 64kbit to 400gbit"),
        ("5mbit", "401gbit", "from 64kbit to 400gbit"),
        (
            'path = "wired"',
            'path = "wirde"',
            "rules[0].path = 'wirde': accepted: one of the file's paths: wired, wirel",
        ),
        (
            'path = "wired"',
            "",
            "rules[0].path = '(missing)': accepted: the name of one of the file's [paths] in quotes",
        ),
        ("[[rules]]", "[[rules]]\nmin_subflows = 0", "rules[0].min_subflows = 0: accepted: a whole number"),
        ("[[rules]]", '[[rules]]\nmin_subflows = "2"', "rules[0].min_subflows = '2': accepted: a whole number"),
        ('"slow"', '"so slow"', "rules[0].name = 'so slow': accepted: 1 to 40 of the characters"),
        ('"eth1"', '"eth0"', "paths.wireless.interface = 'eth0': accepted: an interface that no other path has"),
        ('"eth1"', '"eth1 root"', "paths.wireless.interface = 'eth1 root': accepted: the name of a network interface"),
        ('"eth1"', '"eth1\\nqdisc"', "paths.wireless.interface = 'eth1\\nqdisc': accepted: the name of a network"),
        ('"eth1"', '"sixteencharacter"', "paths.wireless.interface = 'sixteencharacter': accepted: the name of a"),
        ('rate = "5mbit"', 'rate = "5mbit"\n[[rules]]\nname = "slow"\npath = "wired"\nrate = "1mbit"', "rules[1].name"),
        (GOOD, "", "paths = '(missing)': accepted: one table [paths.NAME]"),
        ("[[rules]]", "[[rules", "not valid TOML"),
    ],
)
def test_a_wrong_policy_gets_one_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(Failure) as caught:
        policy_of(GOOD.replace(old, new), tmp_path)
    assert caught.value.code == Exit.USAGE
    assert str(caught.value).startswith(str(tmp_path / "p.toml"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_interface_that_this_host_does_not_have_is_refused(tmp_path: Path) -> None:
    policy = policy_of(GOOD, tmp_path)
    check_interfaces(policy, Path("p.toml"), {"eth0", "eth1", "lo"})
    with pytest.raises(Failure) as caught:
        check_interfaces(policy, Path("p.toml"), {"eth0", "lo"})
    assert caught.value.code == Exit.USAGE
    wanted = "p.toml: paths.wireless.interface = 'eth1': accepted: one of this host's interfaces: eth0, lo"
    assert str(caught.value) == wanted


def subflow(number: int, interface: str, backup: bool = False) -> Subflow:
    name = FourTuple("10.0.1.1", 3128, f"10.0.{number}.2", 40000)
    return Subflow(name, interface, number, initial=number == 1, backup=backup, since=0)


def held(policy: Policy, *subflows: Subflow) -> dict[str, str]:
    """Client address to rule."""
    return {hold.subflow.remote: hold.rule for hold in decide([Session(7, 0, subflows)], policy)}


def test_below_the_least_number_of_subflows_nothing_is_held(tmp_path: Path) -> None:
    assert held(policy_of(GOOD, tmp_path), subflow(1, "eth0")) == {}


def test_from_the_least_number_on_every_subflow_on_the_path_is_held(tmp_path: Path) -> None:
    policy = policy_of(GOOD, tmp_path)
    session = (subflow(1, "eth0"), subflow(2, "eth1"), subflow(3, "eth0"))
    assert held(policy, *session) == {"10.0.1.2": "slow", "10.0.3.2": "slow"}
    (first, *_) = decide([Session(7, 0, session)], policy)
    assert (first.token, first.interface, first.rate) == (7, "eth0", PositiveRate.parse("5mbit"))


def test_a_backup_does_not_count_but_is_held(tmp_path: Path) -> None:
    policy = policy_of(GOOD, tmp_path)
    assert held(policy, subflow(1, "eth0"), subflow(2, "eth1", backup=True)) == {}
    assert held(policy, subflow(1, "eth1"), subflow(2, "eth1"), subflow(3, "eth0", backup=True)) == {"10.0.3.2": "slow"}


def test_the_first_rule_that_matches_decides(tmp_path: Path) -> None:
    more = '[[rules]]\nname = "three"\npath = "wired"\nrate = "1mbit"\nmin_subflows = 3\n\n[[rules]]\nname = "slow"'
    policy = policy_of(GOOD.replace('[[rules]]\nname = "slow"', more), tmp_path)
    two = (subflow(1, "eth0"), subflow(2, "eth1"))
    assert held(policy, *two) == {"10.0.1.2": "slow"}
    assert held(policy, *two, subflow(3, "eth1")) == {"10.0.1.2": "three"}
