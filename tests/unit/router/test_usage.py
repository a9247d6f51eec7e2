from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

import pytest

from router.links.usage import BETWEEN_SAVES, NEW_METER, CapLevel, Meter, Reading, Usage, UsageFile, following, latest
from router.state.owned import NOTHING_OWNED
from router.state.reconciler import Reconciler
from tests.refusals import command_error
from tests.unit.router.house import DSL, LTE, Plug, Script, cut, house, link, settings
from tributary.kernel.state import Octets
from tributary.settings.errors import Exit
from tributary.settings.files import check
from tributary.settings.links import LinkPolicy

GB = 10**9
TODAY = date(2026, 11, 24)
CAPPED = {"lte": check({"monthly_cap": "50GB", "cap_day": 10}, LinkPolicy, "test")}


def metered(carried: int | None = None, kept: Usage | None = None) -> Usage:
    """With a cap; of a link that has ``carried`` so much."""
    usage = kept or Usage(boot="one")
    usage.set_policies(CAPPED, TODAY)
    if carried is not None:
        used(usage, ("one/3", 0), ("one/3", carried))
    return usage


def used(usage: Usage, *readings: tuple[str, int]) -> int:
    for counter, total in readings:
        usage.read({"lte": Reading(counter, total)})
    return usage.meters["lte"].used


@pytest.mark.parametrize(
    ("readings", "wanted"),
    [
        ([("one/3", 7000)], 0),
        ([("one/3", 7000), ("one/3", 7500), ("one/3", 9000)], 2000),
        ([("one/3", 7000), ("one/4", 300)], 300),
        ([("one/3", 7000), ("two/3", 8000)], 8000),
        ([("one/3", 7000), ("one/3", 400)], 400),
    ],
    ids=["before the first", "one after the other", "another interface", "after a reboot", "a counter that restarts"],
)
def test_what_counters_show_adds_up(readings: list[tuple[str, int]], wanted: int) -> None:
    assert used(metered(), *readings) == wanted


def test_a_link_that_moves_from_one_interface_to_another_and_back_counts_everything_once() -> None:
    """The rule of a link with a cap is changed to another interface, and back again, without a restart of the box."""
    usage = metered()
    assert used(usage, ("one/3", 7000), ("one/3", 9000)) == 2000
    assert used(usage, ("one/4", 300)) == 2300
    assert used(usage, ("one/3", 9500)) == 2800
    assert used(usage, ("one/4", 300), ("one/4", 400)) == 2900
    again = metered(kept=Usage(usage.meters, "one"))
    assert used(again, ("one/3", 9600)) == 3000
    assert used(again, ("two/4", 50)) == 3050


def test_many_interfaces_one_after_the_other_are_not_all_remembered() -> None:
    usage = metered()
    used(usage, *((f"one/{number}", 1) for number in range(1000)))
    assert len(str(usage.meters)) < 1000


def test_a_clock_that_is_ahead_for_one_start_begins_no_period_that_never_ends() -> None:
    """The clock says 2036 until the network corrects it; the cap of this month goes on, and ends when it should."""
    usage = metered(7 * GB)
    usage.set_policies(CAPPED, date(2036, 1, 1), is_synchronized=False)
    assert usage.meters["lte"].since == date(2026, 11, 10) and usage.meters["lte"].used == 7 * GB
    usage.set_policies(CAPPED, date(1970, 1, 1), is_synchronized=False)
    assert usage.meters["lte"].since == date(2026, 11, 10)
    usage.set_policies(CAPPED, date(2026, 12, 10))
    assert usage.meters["lte"].since == date(2026, 12, 10) and usage.meters["lte"].used == 0


def test_a_first_start_without_the_time_counts_and_learns_the_period_later() -> None:
    usage = Usage(boot="one")
    usage.set_policies(CAPPED, date(2036, 1, 1), is_synchronized=False)
    assert used(usage, ("one/3", 0), ("one/3", GB)) == GB
    assert usage.resets_on("lte") is None
    kept = Usage(usage.meters, "one")
    kept.set_policies(CAPPED, TODAY)
    assert kept.meters["lte"].since == date(2026, 11, 10) and kept.meters["lte"].used == GB


@pytest.mark.parametrize("is_set", [False, True], ids=["by itself", "by what the provider says"])
def test_a_period_that_an_earlier_version_began_in_the_future_is_mended(is_set: bool) -> None:
    usage = Usage({"lte": replace(NEW_METER, since=date(2036, 1, 10), used=50 * GB)}, "one")
    usage.set_policies(CAPPED, TODAY, is_synchronized=not is_set)
    if is_set:
        assert usage.set("lte", 5)
        assert usage.resets_on("lte") is None, "the date may be wrong"
        usage.set_policies(CAPPED, TODAY)
    assert usage.meters["lte"].since == date(2026, 11, 10)
    assert usage.resets_on("lte") == date(2026, 12, 10)
    assert usage.meters["lte"].used == (5 if is_set else 50 * GB)


def test_a_cap_is_nearly_used_up_from_80_percent_on_and_used_up_at_100() -> None:
    usage = metered(40 * GB - 1)
    assert usage.level("lte") is CapLevel.OK
    used(usage, ("one/3", 40 * GB))
    assert usage.level("lte") is CapLevel.NEAR
    used(usage, ("one/3", 50 * GB))
    assert usage.level("lte") is CapLevel.EXCEEDED and usage.at(CapLevel.EXCEEDED) == {"lte"}


def test_it_counts_anew_on_the_day_and_an_old_date_changes_nothing() -> None:
    usage = metered(50 * GB)
    assert (usage.meters["lte"].since, usage.resets_on("lte")) == (date(2026, 11, 10), date(2026, 12, 10))
    for today in (date(2026, 12, 9), date(1970, 1, 1), date(2026, 11, 9)):
        usage.set_policies(CAPPED, today)
        assert usage.level("lte") is CapLevel.EXCEEDED
    usage.set_policies(CAPPED, date(2026, 12, 10))
    assert usage.level("lte") is CapLevel.OK
    assert used(usage, ("one/3", 51 * GB)) == GB


@pytest.mark.parametrize(
    ("day", "today", "before", "after"),
    [
        (1, "2026-11-24", "2026-11-01", "2026-12-01"),
        (24, "2026-11-24", "2026-11-24", "2026-12-24"),
        (25, "2026-11-24", "2026-10-25", "2026-11-25"),
        (31, "2026-11-30", "2026-11-30", "2026-12-31"),
        (31, "2026-02-27", "2026-01-31", "2026-02-28"),
        (30, "2028-02-29", "2028-02-29", "2028-03-30"),
        (15, "2026-01-03", "2025-12-15", "2026-01-15"),
    ],
)
def test_a_month_that_is_too_short_counts_anew_on_its_last_day(day: int, today: str, before: str, after: str) -> None:
    since = latest(day, date.fromisoformat(today))
    assert (since.isoformat(), following(day, since).isoformat()) == (before, after)


def test_it_is_saved_at_first_then_each_hundredth_or_hour_and_at_last() -> None:
    usage = metered()
    assert usage.needs_save(0)
    usage.saved(0)
    used(usage, ("one/3", 0), ("one/3", GB // 2 - 1))
    assert not usage.needs_save(BETWEEN_SAVES - 1)
    assert usage.needs_save(BETWEEN_SAVES)
    assert usage.needs_save(1, is_last=True)
    used(usage, ("one/3", GB // 2))
    assert usage.needs_save(1)
    usage.saved(1)
    assert not usage.needs_save(2 * BETWEEN_SAVES, is_last=True)


def test_what_was_saved_goes_on_and_what_passed_meanwhile_counts(tmp_path: Path) -> None:
    file = UsageFile(tmp_path / "not" / "there")
    boot = file.load().boot
    usage = metered(kept=file.load())
    used(usage, (f"{boot}/3", 0), (f"{boot}/3", 7 * GB))
    file.save(usage)
    again = metered(kept=UsageFile(tmp_path / "not" / "there").load())
    assert again.meters == usage.meters
    assert used(again, (f"{boot}/3", 9 * GB)) == 9 * GB


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", '{"lte": 5}', '{"lte": {"since": "x", "used": 1, "counter": null}}'),
        *('{"lte": {"since": "2026-11-10"}}', '{"lte": {"used": 1}}'),
    ],
)
def test_a_file_that_is_not_ours_is_refused_by_its_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "usage.json").write_text(text)
    with command_error(Exit.SYSTEM, "usage.json: cannot be read"):
        UsageFile(tmp_path).load()


def test_a_file_of_a_version_that_knew_one_counter_alone_is_read(tmp_path: Path) -> None:
    meter = '{"since": "2026-11-10", "used": 5, "counter": "one/3", "total": 7}'
    (tmp_path / "usage.json").write_text(f'{{"lte": {meter}}}')
    assert UsageFile(tmp_path).load().meters == {"lte": Meter(date(2026, 11, 10), 5, "one/3", 7, {})}


def test_a_link_without_a_cap_is_not_metered_and_keeps_what_it_had() -> None:
    usage = metered(GB)
    usage.set_policies({"lte": LinkPolicy()}, TODAY)
    assert not usage.capped and not usage.set("lte", 5)
    used(usage, ("one/3", 2 * GB))
    assert usage.meters["lte"].used == GB
    usage.set_policies(CAPPED, TODAY)
    assert usage.set("lte", 5) and usage.meters["lte"] == Meter(date(2026, 11, 10), 5, "one/3", GB, {})


SETTINGS = '[wan.dsl]\ninterface = "eth0"\n[wan.lte]\ninterface = "usb*"\nmonthly_cap = "1MB"'
NOON = datetime(2026, 11, 24, 12).timestamp()


def test_a_link_whose_cap_is_used_up_has_nothing_any_more_and_its_own_default_route_leads_nowhere() -> None:
    script = Script(house(DSL, LTE), SETTINGS)
    script.step(NOON)
    reconciler = script.reconciler
    assert reconciler.counted_interfaces == {"lte": "usb0"}
    assert not reconciler.count({"lte": Octets(0, 0)}, {}, 1)
    assert reconciler.count({"lte": Octets(500_000, 500_000)}, {}, 2)
    said = script.step(NOON)
    assert [each for each in said if "add" in each] == [
        "ip route add unreachable default metric 9 proto 84",
        "ip -6 route add unreachable default metric 9 proto 84",
    ]
    assert "ip mptcp endpoint delete id 129" in said
    assert "ip rule del priority 8400 from 10.64.0.2 lookup 8402 protocol 84" in said
    assert link(reconciler, "lte").reason == "monthly cap of 1MB used up, resets on 2026-12-01"
    routes = script.kernel.routes
    assert not [route for route in routes if route.interface == LTE.interface.index and route.protocol == 84]
    assert script.step(NOON) == []
    assert "ip route del unreachable default metric 9 proto 84" in script.step(datetime(2026, 12, 1).timestamp())
    assert link(reconciler, "lte").reason is None


def used_up(*plugs: Plug) -> Reconciler:
    """A router whose LTE has carried all of November's cap."""
    usage = Usage({"lte": replace(NEW_METER, since=date(2026, 11, 1), used=10**6)}, "one")
    reconciler = Reconciler(settings(SETTINGS), NOTHING_OWNED, usage)
    assert why(reconciler, "2026-11-24", *plugs) == "monthly cap of 1MB used up, resets on 2026-12-01"
    return reconciler


def why(reconciler: Reconciler, day: str, *plugs: Plug, is_synchronized: bool = False) -> str | None:
    reconciler.reconcile(house(*plugs), datetime.fromisoformat(day).timestamp(), 0, is_synchronized=is_synchronized)
    return link(reconciler, "lte").reason


@pytest.mark.parametrize("plugs", [(LTE,), (cut(DSL), LTE)], ids=["the only link", "the only one that works"])
def test_a_clock_that_needs_the_link_is_believed_that_the_month_is_over(plugs: tuple[Plug, ...]) -> None:
    reconciler = used_up(*plugs)
    assert why(reconciler, "2026-12-01", *plugs) is None
    assert reconciler.usage.level("lte") is CapLevel.EXCEEDED, "the network may say otherwise"
    assert why(reconciler, "2026-11-30", *plugs, is_synchronized=True) is not None
    assert why(reconciler, "2026-12-01", *plugs) is None
    assert reconciler.usage.level("lte") is CapLevel.OK


def test_a_clock_that_another_link_can_correct_is_not_believed_before_it_was_synchronized() -> None:
    assert why(used_up(DSL, LTE), "2026-12-01", DSL, LTE) is not None
    reconciler = used_up(DSL, LTE)
    assert why(reconciler, "2026-11-24", DSL, LTE, is_synchronized=True) is not None
    assert why(reconciler, "2026-12-01", DSL, LTE) is None


def test_what_was_used_is_set_before_the_time_is_known_and_the_only_link_learns_it() -> None:
    reconciler = used_up(LTE)
    reconciler.usage.set("lte", 2 * 10**6)
    assert why(reconciler, "1970-01-01", LTE) is None
    assert why(reconciler, "2026-11-24", LTE, is_synchronized=True) is not None


def test_where_no_time_server_answers_the_only_link_does_not_go_on_for_ever() -> None:
    reconciler = used_up(LTE)
    for carried, is_used in ((5_000, True), (5_000, True), (1, False)):
        before = reconciler.usage.meters["lte"]
        reconciler.usage.meters["lte"] = replace(before, used=before.used + carried)
        assert (why(reconciler, "2026-12-01", LTE) is None) is is_used
    assert "used up" in str(why(reconciler, "2026-12-01", LTE))
    reconciler.usage.set("lte", 2 * 10**6)
    assert why(reconciler, "2026-12-01", LTE) is None, "a person has looked at it"
