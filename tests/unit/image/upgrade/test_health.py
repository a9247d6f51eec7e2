"""When a system that has just started is good, and when it is not."""

import pytest

from image.upgrade.health import COMPLETE, Health, asked, parse, verdict

SHOWN = """\
Type=simple
Result=success
Id=tributary-converter.service
ActiveState=active
ConditionResult=yes
ConditionTimestampMonotonic=9400311

Type=oneshot
Result=success
Id=tributary-firstboot-report.service
ActiveState=inactive
ConditionResult=yes
ConditionTimestampMonotonic=9398204

Id=boot-complete.target
ActiveState=active
ConditionResult=yes
ConditionTimestampMonotonic=12113087
"""

NEVER_TRIED = {"ActiveState": "inactive", "ConditionResult": "no", "ConditionTimestampMonotonic": "0"}
"""What systemd 252 shows of a unit that waits for another one, and of one that is never started."""


def unit(name: str, **fields: str) -> dict[str, str]:
    return {
        "Id": name,
        "Type": "simple",
        "ActiveState": "active",
        "Result": "success",
        "ConditionResult": "yes",
        "ConditionTimestampMonotonic": "9400311",
    } | fields


def test_all_of_tributary_s_are_asked_but_who_asks() -> None:
    enabled = ["tributary-upgrade-confirm.service", "tributary-squid.service", "tributary-router.service"]
    assert asked(enabled) == ["tributary-router.service", "tributary-squid.service", COMPLETE]


def test_what_systemctl_shows_is_good_if_daemons_run_and_the_rest_is_over() -> None:
    found = parse(SHOWN)
    assert [each["Id"] for each in found] == [
        "tributary-converter.service",
        "tributary-firstboot-report.service",
        COMPLETE,
    ]
    assert verdict(found).health is Health.GOOD


@pytest.mark.parametrize(("fields", "health"), [
    ({"ActiveState": "failed", "Result": "exit-code"}, Health.BAD),
    ({"ActiveState": "activating", "Result": "exit-code"}, Health.UNDECIDED),  # started again after it failed
    ({"ActiveState": "activating"}, Health.UNDECIDED),
    (NEVER_TRIED, Health.UNDECIDED),  # its turn has not come
    (NEVER_TRIED | {"Type": "oneshot"}, Health.UNDECIDED),
    (NEVER_TRIED | {"Type": ""}, Health.UNDECIDED),  # a target; also one that requires what failed
    ({"ActiveState": "inactive"}, Health.UNDECIDED),  # it ended, and nobody knows why
    ({"ActiveState": "inactive", "ConditionResult": "no"}, Health.GOOD),
    ({"ActiveState": "inactive", "Type": "oneshot"}, Health.GOOD),
    ({"ActiveState": "inactive", "Type": "oneshot", "Result": "timeout"}, Health.BAD),
])  # fmt: skip
def test_one_unit_decides_and_is_named(fields: dict[str, str], health: Health) -> None:
    found = verdict([unit("tributary-a.service"), unit("tributary-b.service", **fields)])
    assert found.health is health
    assert found.units == (() if health is Health.GOOD else ("tributary-b.service",))


def test_what_failed_weighs_more_than_what_is_on_its_way() -> None:
    found = verdict([unit("tributary-a.service", ActiveState="activating"), unit("b.target", ActiveState="failed")])
    assert (found.health, found.units) == (Health.BAD, ("b.target",))
