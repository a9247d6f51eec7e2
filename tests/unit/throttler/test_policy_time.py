from datetime import datetime, timedelta

import pytest

from throttler.policy import quotas as quotas_module
from throttler.policy.decide import Owner, active_rules
from throttler.policy.model import Rule
from throttler.policy.quotas import SECOND, Quotas, period_start, saved
from throttler.policy.values import Day, Period, Quota, SharedBy
from tributary.settings.hours import Hours
from tributary.settings.units import PositiveRate, Size

SATURDAY = datetime(2026, 11, 21)
NIGHT = Rule(name="night", hours=Hours.parse("22:00-06:00"), days=(Day.FRI,))
EVENING = Rule(name="evening", hours=Hours.parse("18:00-23:00"))
WEEKEND = Rule(name="weekend", days=(Day.SAT, Day.SUN))


@pytest.mark.parametrize(
    ("rule", "time", "is_active"),
    [
        *((EVENING, f"21 {time}", True) for time in ("18:00", "22:59")),
        *((EVENING, f"21 {time}", False) for time in ("17:59", "23:00")),
        (WEEKEND, "21 00:00", True),
        *((WEEKEND, time, False) for time in ("20 23:59", "23 00:00")),
        *((NIGHT, time, True) for time in ("20 22:00", "21 05:59")),
        *((NIGHT, time, False) for time in ("20 21:59", "21 06:00", "21 22:00")),
    ],
)
def test_a_rule_is_active_in_its_hours(rule: Rule, time: str, is_active: bool) -> None:
    assert (rule.name in active_rules([rule], datetime.fromisoformat(f"2026-11-{time}"))) is is_active


@pytest.mark.parametrize(
    ("period", "start"),
    [
        (Period.HOUR, "2026-11-21T13:00:00"),
        (Period.DAY, "2026-11-21T00:00:00"),
        (Period.WEEK, "2026-11-16T00:00:00"),
        (Period.MONTH, "2026-11-01T00:00:00"),
    ],
)
def test_a_period_begins_with_the_calendar(period: Period, start: str) -> None:
    assert period_start(period, SATURDAY.replace(hour=13, minute=37)).isoformat() == start


RULE = Rule(
    name="lte",
    rate=PositiveRate.parse("80mbit"),
    quota=Quota.parse("100MB per day"),
    over_quota_rate=PositiveRate.parse("1mbit"),
    shared_by=SharedBy.CLIENT,
)
OWNER = Owner("lte", SharedBy.CLIENT, "198.51.100.2")


@pytest.fixture
def quotas() -> Quotas:
    """With one class."""
    made = Quotas()
    made.open(1, OWNER, RULE, 0, SATURDAY)
    return made


def test_a_quota_is_spent_by_what_its_counter_shows(quotas: Quotas) -> None:
    assert not quotas.read(1, 99_000_000, SECOND, SATURDAY)
    assert quotas.read(1, 100_000_000, SECOND, SATURDAY)
    assert quotas.exhausted == {OWNER}


def test_counters_are_read_before_the_class_can_have_passed_half_of_what_is_left(quotas: Quotas) -> None:
    # 100 MB at 80 Mbit/s last 10 s.
    assert quotas.next_reading == 5 * SECOND
    assert quotas.due(4 * SECOND) == [] and quotas.due(5 * SECOND) == [1]
    quotas.read(1, 50_000_000, 5 * SECOND, SATURDAY)
    assert quotas.next_reading == 7.5 * SECOND


def test_a_class_at_full_speed_is_cut_within_half_a_percent_by_few_readings(quotas: Quotas) -> None:
    now, readings = 0, 0
    while not quotas.exhausted:
        assert quotas.next_reading is not None
        now = quotas.next_reading
        assert quotas.due(now) == [1]
        quotas.read(1, now * 10 // 1000, now, SATURDAY)
        readings += 1
    assert 99_500_000 <= now * 10 // 1000 <= 100_500_000
    assert readings < 12


def test_what_a_client_used_is_counted_over_all_of_its_classes(quotas: Quotas) -> None:
    quotas.read(1, 60_000_000, SECOND, SATURDAY)
    quotas.close(1)
    quotas.open(2, OWNER, RULE, SECOND, SATURDAY)
    assert quotas.read(2, 40_000_000, SECOND, SATURDAY)
    assert [amount for _, _, amount in quotas.used()] == [100_000_000]


def test_a_new_day_starts_a_new_quota(quotas: Quotas) -> None:
    quotas.read(1, 100_000_000, SECOND, SATURDAY)
    assert not quotas.renew(SATURDAY.replace(hour=23, minute=59))
    assert quotas.renew(SATURDAY.replace(day=22))
    assert quotas.exhausted == frozenset()
    assert not quotas.read(1, 110_000_000, SECOND, SATURDAY.replace(day=22))
    assert [amount for _, _, amount in quotas.used()] == [10_000_000]


def test_what_was_used_survives_a_restart_in_the_same_period_only(quotas: Quotas) -> None:
    quotas.read(1, 100_000_000, SECOND, SATURDAY)
    again, tomorrow = Quotas(), Quotas()
    again.load(saved(quotas.used()), [RULE], SATURDAY.replace(hour=20))
    tomorrow.load(saved(quotas.used()), [RULE], SATURDAY.replace(day=22))
    assert again.exhausted == {OWNER} and tomorrow.exhausted == frozenset()


@pytest.mark.parametrize("behind", [timedelta(hours=15), timedelta(days=20_000)])
def test_a_clock_that_is_behind_gives_no_new_quota(quotas: Quotas, behind: timedelta) -> None:
    quotas.read(1, 100_000_000, SECOND, SATURDAY)
    again, early = Quotas(), SATURDAY - behind
    again.load(saved(quotas.used()), [RULE], early)
    again.open(1, OWNER, RULE, 0, early)
    assert again.renew(early) == [] and again.exhausted == {OWNER}
    again.read(1, 7, SECOND, early)
    assert again.renew(SATURDAY) == [] and again.used() == [(OWNER, "2026-11-21T00:00:00", 100_000_007)]
    assert again.renew(SATURDAY + timedelta(days=1)) == [OWNER]


def test_a_clock_that_was_ahead_takes_no_more_than_the_rest_of_a_period(quotas: Quotas) -> None:
    ahead = SATURDAY + timedelta(days=20_000)
    quotas.renew(ahead)
    quotas.read(1, 100_000_000, SECOND, ahead)
    assert quotas.renew(SATURDAY) == [] and quotas.exhausted == {OWNER}
    assert quotas.renew(SATURDAY + timedelta(days=1)) == [OWNER]


def test_a_quota_that_gets_another_period_starts_again(quotas: Quotas) -> None:
    quotas.read(1, 100_000_000, SECOND, SATURDAY)
    monthly = RULE.model_copy(update={"quota": Quota(Size.parse("100MB"), Period.MONTH)})
    again = Quotas()
    again.load(saved(quotas.used()), [monthly], SATURDAY)
    assert again.used() == []
    quotas.set_rules([monthly])
    assert quotas.renew(SATURDAY) == [OWNER]


def test_a_larger_quota_after_a_reload_is_not_exhausted(quotas: Quotas) -> None:
    quotas.read(1, 100_000_000, SECOND, SATURDAY)
    quotas.set_rules([RULE.model_copy(update={"quota": Quota(Size.parse("200MB"), Period.DAY)})])
    assert quotas.exhausted == frozenset()
    quotas.set_rules([EVENING])
    assert saved(quotas.used()) == []


def test_a_rule_that_loses_its_quota_is_not_metered_any_more(quotas: Quotas) -> None:
    quotas.set_rules([EVENING])
    assert quotas.due(10 * SECOND) == []
    assert not quotas.read(1, 100_000_000, SECOND, SATURDAY)


def test_a_rule_that_comes_back_as_after_a_trial_gives_no_new_quota_within_its_period(quotas: Quotas) -> None:
    quotas.renew(SATURDAY)
    quotas.read(1, 100_000_000, SECOND, SATURDAY)
    for _ in range(2):
        quotas.set_rules([EVENING])
        assert quotas.exhausted == set()
        quotas.set_rules([RULE])
        assert (quotas.exhausted, saved(quotas.used())[0].used) == ({OWNER}, 100_000_000)
    quotas.set_rules([EVENING])
    quotas.renew(SATURDAY + timedelta(days=1))
    quotas.set_rules([RULE])
    assert quotas.used() == []


def test_what_rules_that_are_gone_have_metered_is_bounded(quotas: Quotas, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas_module, "METERS", 64)
    quotas.read(1, 100_000_000, SECOND, SATURDAY)
    for turn in range(5):
        rule = RULE.model_copy(update={"name": f"rule-{turn}"})
        quotas.set_rules([rule])
        for number in range(2, 60):
            quotas.open(number, Owner(rule.name, SharedBy.CLIENT, str(number)), rule, SECOND, SATURDAY)
            quotas.read(number, number, SECOND, SATURDAY)
    every = [RULE, *(RULE.model_copy(update={"name": f"rule-{turn}"}) for turn in range(5))]
    quotas.set_rules(every)
    assert len(quotas.used()) == 64 and quotas.exhausted == {OWNER}


def test_a_class_that_was_there_before_its_quota_begins_at_what_it_shows_then() -> None:
    quotas = Quotas()
    quotas.open(1, OWNER, RULE, SECOND, SATURDAY, is_new=False)
    assert quotas.due(SECOND) == [1]
    assert not quotas.read(1, 500_000_000, SECOND, SATURDAY)
    assert not quotas.read(1, 550_000_000, SECOND, SATURDAY)
    assert [amount for _, _, amount in quotas.used()] == [50_000_000]


def test_who_used_nothing_and_has_no_class_is_forgotten(quotas: Quotas) -> None:
    quotas.read(1, 100_000_000, SECOND, SATURDAY)
    quotas.close(1)
    quotas.renew(SATURDAY)
    assert len(saved(quotas.used())) == 1
    quotas.renew(SATURDAY.replace(day=22))
    assert saved(quotas.used()) == []


def test_meters_are_bounded_and_who_has_spent_all_goes_last(quotas: Quotas, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the shared_by "client" each /64 of IPv6 is one, and has a meter for a whole month."""
    monkeypatch.setattr(quotas_module, "METERS", 64)
    quotas.read(1, 100_000_000, SECOND, SATURDAY)
    quotas.close(1)
    for number in range(2, 1000):
        owner = Owner("lte", SharedBy.CLIENT, f"10.0.{number // 256}.{number % 256}")
        quotas.open(number, owner, RULE, SECOND, SATURDAY)
        quotas.read(number, number, SECOND, SATURDAY)
        quotas.close(number)
        assert len(quotas.used()) <= 64
    assert OWNER in quotas.exhausted
