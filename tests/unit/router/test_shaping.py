import shutil
from dataclasses import replace
from typing import Any

import pytest

from router.links.model import links
from router.shaping.autorate import Direction
from router.shaping.model import (
    ChangeRates,
    InstalledQdiscs,
    Kind,
    Queue,
    RemoveShape,
    SetShape,
    Shape,
    ShapingOperation,
    diff,
    lines,
)
from router.shaping.model import shapes as shapes_of
from router.shaping.qdiscs import installed_qdiscs
from router.shaping.shaper import LinkShapers
from tests.unit.router.house import DSL, LTE, SETTINGS, house, settings
from tributary.kernel import tc
from tributary.kernel.state import Interface

MBIT = 10**6
SHAPE = Shape("usb0", 3, 2, 50 * MBIT, 10 * MBIT)
UP_ALONE = replace(SHAPE, download=None)
UP, DOWN = Queue(Kind.FQ_CODEL, 1_250_000), Queue(Kind.FQ_CODEL, 6_250_000)
WHOLE = InstalledQdiscs({"usb0": UP, "tributary-in2": DOWN}, redirected=frozenset({"usb0"}))


def operations(
    wanted: list[Shape], installed: InstalledQdiscs, *given: Shape, devices: tuple[str, ...] = ()
) -> list[ShapingOperation]:
    return list(diff(wanted, installed, {each.interface: each for each in given}, Kind.FQ_CODEL, devices))


def test_links_with_rates_get_shapes_as_long_as_their_interface_is_there() -> None:
    found = links(settings(), house(DSL, LTE))
    rates = {"dsl": (None, None), "lte": (50 * MBIT, 10 * MBIT)}
    assert list(shapes_of(found, rates)) == [SHAPE]
    assert list(shapes_of(links(settings(), house(DSL)), rates)) == []


def test_what_stands_as_it_should_is_left_alone() -> None:
    assert operations([SHAPE], WHOLE, SHAPE, devices=("usb0", "tributary-in2")) == []


@pytest.mark.parametrize(
    "installed",
    [
        InstalledQdiscs(),
        replace(WHOLE, redirected=frozenset()),
        replace(WHOLE, owned={"usb0": UP}),
        replace(WHOLE, owned={"tributary-in2": DOWN}),
        replace(WHOLE, owned={"usb0": Queue(Kind.FQ_CODEL, 125_000_000), "tributary-in2": DOWN}),
        replace(WHOLE, owned={"usb0": UP, "tributary-in2": Queue(Kind.FQ_CODEL, None)}),
        replace(WHOLE, owned={"usb0": UP, "tributary-in2": Queue(Kind.SHORT, 6_250_000)}),
    ],
    ids=["nothing", "no redirect", "up alone", "down alone", "another rate", "no rate", "no fair queue"],
)
def test_what_is_not_whole_is_set_again(installed: InstalledQdiscs) -> None:
    assert operations([SHAPE], installed, SHAPE) == [SetShape(SHAPE)]


@pytest.mark.parametrize(
    ("shown", "queue"),
    [
        (
            [{"kind": "tbf", "root": True, "options": {"rate": 1000}}, {"kind": "fq_codel", "handle": "5454:"}],
            Queue(Kind.FQ_CODEL, 1000),
        ),
        ([{"kind": "tbf", "root": True, "options": {"rate": 1000}}], Queue(Kind.SHORT, 1000)),
        ([{"kind": "cake", "root": True, "options": {"bandwidth": 1000}}], Queue(Kind.CAKE, 1000)),
        ([{"kind": "cake", "root": True, "options": {"bandwidth": "unlimited"}}], Queue(Kind.CAKE, None)),
    ],
)
def test_queues_are_known_by_what_tc_shows(
    shown: list[dict[str, Any]], queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = [{"dev": "usb0", "handle": "5453:", **each} for each in shown]
    monkeypatch.setattr(tc, "shown", lambda *_: listed)
    monkeypatch.setattr(shutil, "which", lambda _: "tc")
    assert installed_qdiscs() == InstalledQdiscs({"usb0": queue})


def test_what_a_daemon_before_this_one_set_is_set_again() -> None:
    assert operations([SHAPE], WHOLE) == [SetShape(SHAPE)]


def test_other_rates_are_a_change_and_another_interface_or_direction_is_not() -> None:
    other = replace(SHAPE, upload=2 * MBIT)
    assert operations([other], WHOLE, SHAPE) == [ChangeRates(other)]
    assert operations([UP_ALONE], WHOLE, SHAPE) == [RemoveShape("tributary-in2"), SetShape(UP_ALONE)]
    new = replace(SHAPE, index=9)
    assert operations([new], WHOLE, SHAPE) == [SetShape(new)]


def test_what_nobody_wants_is_taken_away_also_half_of_it() -> None:
    assert operations([], WHOLE) == [RemoveShape("tributary-in2"), RemoveShape("usb0")]
    assert operations([], InstalledQdiscs(), devices=("lo", "tributary-in1")) == [RemoveShape("tributary-in1")]
    assert operations([], InstalledQdiscs(redirected=frozenset({"eth0"}))) == [RemoveShape("eth0")]


def test_a_qdisc_of_somebody_else_s_keeps_its_interface_from_being_shaped() -> None:
    assert operations([SHAPE], InstalledQdiscs(foreign=frozenset({"usb0"}))) == []


@pytest.mark.parametrize(
    ("kind", "root", "more"),
    [
        (Kind.CAKE, "cake bandwidth 10000000bit besteffort flows nonat", []),
        (
            Kind.FQ_CODEL,
            "tbf rate 10000000bit burst 3028b limit 25000b",
            ["tc qdisc add dev usb0 parent 5453:1 handle 5454: fq_codel"],
        ),
        (Kind.SHORT, "tbf rate 10000000bit burst 3028b limit 25000b", []),
    ],
)
def test_commands_of_each_kind(kind: Kind, root: str, more: list[str]) -> None:
    before = ["tc qdisc delete dev usb0 root handle 5453:"]
    coming = ["tc filter delete dev usb0 ingress pref 5453", "ip link delete dev tributary-in2"]
    tree = [f"tc qdisc add dev usb0 root handle 5453: {root}", *more]
    assert lines(SetShape(UP_ALONE), kind) == [*before, *tree, *coming]
    assert lines(ChangeRates(UP_ALONE), kind) == [f"tc qdisc change dev usb0 root handle 5453: {root}"]


def test_what_comes_in_is_led_through_a_device_of_its_own() -> None:
    assert lines(SetShape(replace(SHAPE, upload=None)), Kind.CAKE) == [
        "tc qdisc delete dev usb0 root handle 5453:",
        "tc filter delete dev usb0 ingress pref 5453",
        "ip link delete dev tributary-in2",
        "ip link add tributary-in2 numtxqueues 1 numrxqueues 1 type ifb",
        "ip link set tributary-in2 up",
        "tc qdisc add dev tributary-in2 root handle 5453: cake bandwidth 50000000bit besteffort flows nonat",
        "tc qdisc add dev usb0 clsact",
        "tc filter add dev usb0 ingress pref 5453 protocol all u32 match u32 0 0 action mirred egress redirect"
        " dev tributary-in2",
    ]


def test_queues_of_slow_links_hold_whole_frames_and_those_of_fast_ones_20_ms() -> None:
    (slow,) = lines(ChangeRates(replace(UP_ALONE, upload=100_000)), Kind.SHORT)
    assert slow.endswith("burst 3028b limit 15140b")
    (fast,) = lines(ChangeRates(replace(UP_ALONE, upload=1000 * MBIT)), Kind.SHORT)
    assert fast.endswith("burst 125000b limit 2500000b")


def test_devices_of_ours_are_no_links() -> None:
    anything = settings('[wan.any]\ninterface = "*"\n')
    plug = replace(DSL, interface=Interface(2, "tributary-in1"))
    assert links(anything, house(plug))[0].interface is None


def test_rates_that_moved_outlive_a_reload_with_the_same_ones() -> None:
    text = SETTINGS + 'download = "50mbit"\nadapt = true\n[probe]\ntarget = "203.0.113.5:5124"\n'
    shapers = LinkShapers(settings(text))
    shapers.auto_rates["lte"].rates[Direction.DOWN] = 7 * MBIT
    shapers.change_settings(settings(text))
    assert shapers.auto_rates["lte"].rates[Direction.DOWN] == 7 * MBIT
    shapers.change_settings(settings(text.replace("50mbit", "40mbit")))
    assert shapers.auto_rates["lte"].rates[Direction.DOWN] == 40 * MBIT
    shapers.change_settings(settings(text.replace("adapt = true\n", "")))
    assert shapers.auto_rates == {} and shapers.next_due is None
