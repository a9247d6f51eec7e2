"""The search for the largest packet, against ways that are made up, and when it is made."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.probes.mtu import AGAIN, METERED, SOON, Path, Paths, Search
from tests.unit.router.enrolled import FIRST, Script
from tests.unit.router.house import DSL, LTE, SETTINGS, settings

ECHO, SILENCE = -1, 0
"""What comes of a probe beside how much a router says that it passes on."""


def passes(most: int, *, says: bool) -> Callable[[int], int]:
    """A way for packets of up to ``most`` bytes, with a router that says so or not."""
    return lambda size: ECHO if size <= most else most if says else SILENCE


def sizes(search: Search, way: Callable[[int], int]) -> Iterator[int]:
    """Carry a search through; the sizes of its probes."""
    while (size := search.size) is not None:
        yield size
        match way(size):
            case -1:
                search.answered(0.02)
            case 0:
                search.lost()
            case most:
                search.too_large(most)


@pytest.mark.parametrize(
    ("way", "sent", "result"),
    [
        (passes(1500, says=True), [1500], 1500),
        (passes(1492, says=True), [1500, 1492], 1492),
        (lambda _: SILENCE, [1500, 1500, 1500, 1200, 1200, 1200], None),
    ],
    ids=["one probe where everything passes", "what a router says", "nothing where nothing is answered"],
)
def test_a_search_takes_few_probes(way: Callable[[int], int], sent: list[int], result: int | None) -> None:
    search = Search(1500)
    assert (list(sizes(search, way)), search.result) == (sent, result)


def test_behind_routers_that_say_nothing_1492_is_tried_first() -> None:
    search = Search(1500)
    sent = list(sizes(search, passes(1492, says=False)))
    assert sent[:5] == [1500, 1500, 1500, 1200, 1492]
    assert search.result == 1492 and len(sent) < 20


@given(st.integers(1200, 1500), st.booleans(), st.sampled_from([4, 6]))
def test_it_finds_exactly_what_passes(most: int, says: bool, version: int) -> None:
    search = Search(1500, version)
    sent = list(sizes(search, passes(most, says=says)))
    assert search.result == (most if version == 4 or most >= 1280 else None)
    assert len(sent) <= 40


@given(st.lists(st.sampled_from([ECHO, SILENCE, 68, 576, 1280, 1400, 1492, 1500, 65535]), max_size=200))
def test_it_ends_whatever_comes(told: list[int]) -> None:
    answers = iter(told)
    search = Search(1500)
    assert len(list(sizes(search, lambda _: next(answers, SILENCE)))) < 300
    assert search.result is None or 1200 <= search.result <= 1500


def test_a_way_that_ends_during_the_search_is_not_taken_for_a_narrow_one() -> None:
    search = Search(1500)
    answers = iter([SILENCE] * 3 + [ECHO])
    list(sizes(search, lambda _: next(answers, SILENCE)))
    assert search.result is None


def test_probes_that_are_lost_now_and_then_change_nothing() -> None:
    search, lost = Search(1500), iter(range(1000))
    list(sizes(search, lambda size: SILENCE if next(lost) % 3 == 0 else passes(1430, says=False)(size)))
    assert search.result == 1430


def test_once_an_answers_time_is_known_the_next_one_is_not_waited_for_so_long() -> None:
    search = Search(1500)
    assert search.timeout == 1.0
    search.too_large(1400)
    search.answered(0.1)
    assert search.result == 1400
    slow = Search(1500)
    for _ in range(3):
        slow.lost()
    slow.answered(0.15)
    assert slow.timeout == pytest.approx(0.6)


WAY = Path("eth0", ip_address("192.168.1.2"), ip_address("203.0.113.5"), 1500)


@pytest.fixture
def paths() -> Paths:
    made = Paths()
    made.set_paths({"dsl": WAY})
    assert made.start_due(100.0) == ["dsl"]
    assert made.next_probe("dsl") == (WAY, 1500, 1.0)
    made.too_large("dsl", 1492, 100.1)
    made.answered("dsl", 0.02, 100.2)
    return made


def test_a_way_is_measured_at_once_and_then_each_hour(paths: Paths) -> None:
    assert (paths.results, paths.reached) == ({"dsl": 1492}, {"dsl": True})
    assert paths.next_probe("dsl") is None and paths.start_due(200.0) == []
    assert paths.next_due == 100.2 + AGAIN


def test_another_way_is_another_measurement_and_late_answers_for_the_old_one_count_nothing(paths: Paths) -> None:
    paths.set_paths({"dsl": replace(WAY, source=ip_address("192.168.1.3"))})
    assert paths.results == {}
    paths.answered("dsl", 0.02, 101.0)
    assert paths.results == {} and paths.start_due(101.0) == ["dsl"]


def test_what_was_known_stays_when_nobody_answers_the_next_time(paths: Paths) -> None:
    assert paths.start_due(100.2 + AGAIN) == ["dsl"]
    for _ in range(6):
        paths.lost("dsl", 5000.0)
    assert (paths.results, paths.reached) == ({"dsl": 1492}, {"dsl": False})
    assert paths.next_due == 5000.0 + SOON


@pytest.mark.parametrize(("metered", "most"), [(False, 3600.0), (True, 86400.0)])
def test_a_gateway_that_answers_no_pings_is_asked_less_and_less(metered: bool, most: float) -> None:
    paths, now, pauses = Paths(), 0.0, list[float]()
    paths.set_paths({"dsl": replace(WAY, is_metered=metered)})
    for _ in range(14):
        assert paths.start_due(now) == ["dsl"]
        while paths.next_probe("dsl"):
            paths.lost("dsl", now)
        assert paths.next_due is not None
        pauses.append(paths.next_due - now)
        now = paths.next_due
    assert pauses[:3] == [SOON, 2 * SOON, 4 * SOON] and pauses[-1] == most
    measured_again = paths.start_due(now)
    paths.answered("dsl", 0.02, now)
    assert measured_again and paths.next_due == now + (METERED if metered else AGAIN)


def test_a_link_by_which_the_tunnel_is_silent_is_measured_at_once_and_then_each_minute(paths: Paths) -> None:
    paths.recheck({"dsl"}, 200.0)
    assert paths.reached == {} and paths.start_due(200.0) == ["dsl"]
    paths.answered("dsl", 0.02, 200.1)
    paths.recheck({"dsl"}, 200.2)
    assert paths.reached == {"dsl": True} and paths.start_due(200.2) == []
    assert paths.start_due(200.2 + SOON) == ["dsl"]


def test_the_tunnels_packets_are_made_to_fit_what_was_measured() -> None:
    script = Script(FIRST)
    script.now(DSL, LTE)
    paths = script.reconciler.paths
    assert paths.start_due(100.0) == ["dsl", "lte"]
    assert paths.next_probe("dsl") == (WAY, 1500, 1.0)
    paths.answered("dsl", 0.02, 100.0)
    paths.too_large("lte", 1430, 100.0)
    paths.answered("lte", 0.02, 100.0)
    # 60 bytes less, the tunnel for everything else as well, since it may have to leave by this link.
    assert [each.split("; ")[-1] for each in script.reconcile()] == [
        "ip link set tb0 mtu 1370 up",
        "ip link set tb2 mtu 1370 up",
    ]


def test_without_tunnels_the_way_to_the_target_is_measured_and_never_makes_a_tunnels_packets_larger() -> None:
    script = Script(FIRST)
    script.now(DSL)
    script.reconciler.paths.start_due(100.0)
    script.reconciler.paths.answered("dsl", 0.02, 100.0)
    assert script.reconcile() == []
    script = Script(FIRST)
    script.reconciler.change_settings(settings(SETTINGS + '[probe]\ntarget = "203.0.113.5:5124"'))
    script.now(DSL)
    script.reconciler.paths.start_due(100.0)
    assert script.reconciler.paths.next_probe("dsl") == (WAY, 1500, 1.0)
