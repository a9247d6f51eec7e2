"""From links with rates to qdiscs: the steps, and the commands of each kind of queue."""

from dataclasses import replace

import pytest

from router.adapting import Way
from router.links import links
from router.observed import Interface
from router.quality import Quality
from router.shaping import (
    ChangeRates,
    Given,
    Kind,
    RemoveShape,
    SetShape,
    Shape,
    ShapingStep,
    Stands,
    difference,
    lines,
)
from router.shaping import shapes as shapes_of
from tests.unit.router.house import DSL, LTE, SETTINGS, house, settings

MBIT = 10**6
SHAPE = Shape("usb0", 3, 2, 50 * MBIT, 10 * MBIT)
UP_ALONE = replace(SHAPE, download=None)
WHOLE = Stands(frozenset({"usb0", "tributary-in2"}), frozenset(), frozenset({"usb0"}))


def steps(wanted: list[Shape], stands: Stands, *given: Shape, devices: tuple[str, ...] = ()) -> list[ShapingStep]:
    return list(difference(wanted, stands, {each.interface: each for each in given}, devices))


def test_links_with_rates_get_shapes_as_long_as_their_interface_is_there() -> None:
    found = links(settings(), house(DSL, LTE))
    rates = {"dsl": (None, None), "lte": (50 * MBIT, 10 * MBIT)}
    assert list(shapes_of(found, rates)) == [SHAPE]
    assert list(shapes_of(links(settings(), house(DSL)), rates)) == []


def test_what_stands_as_it_should_is_left_alone() -> None:
    assert steps([SHAPE], WHOLE, SHAPE, devices=("usb0", "tributary-in2")) == []


@pytest.mark.parametrize(
    "stands",
    [
        Stands(),
        replace(WHOLE, led=frozenset()),
        replace(WHOLE, ours=frozenset({"usb0"})),
        replace(WHOLE, ours=frozenset({"tributary-in2"})),
    ],
)
def test_what_is_not_whole_is_set_again(stands: Stands) -> None:
    assert steps([SHAPE], stands, SHAPE) == [SetShape(SHAPE)]


def test_what_a_daemon_before_this_one_set_is_set_again() -> None:
    assert steps([SHAPE], WHOLE) == [SetShape(SHAPE)]


def test_other_rates_are_a_change_and_another_interface_or_direction_is_not() -> None:
    other = replace(SHAPE, upload=2 * MBIT)
    assert steps([other], WHOLE, SHAPE) == [ChangeRates(other)]
    assert steps([UP_ALONE], WHOLE, SHAPE) == [RemoveShape("tributary-in2"), SetShape(UP_ALONE)]
    new = replace(SHAPE, index=9)
    assert steps([new], WHOLE, SHAPE) == [SetShape(new)]


def test_what_nobody_wants_is_taken_away_also_half_of_it() -> None:
    assert steps([], WHOLE) == [RemoveShape("tributary-in2"), RemoveShape("usb0")]
    assert steps([], Stands(), devices=("lo", "tributary-in1")) == [RemoveShape("tributary-in1")]
    assert steps([], Stands(led=frozenset({"eth0"}))) == [RemoveShape("eth0")]


def test_a_qdisc_of_somebody_else_s_keeps_its_interface_from_being_shaped() -> None:
    assert steps([SHAPE], Stands(foreign=frozenset({"usb0"}))) == []


def test_given_is_what_was_carried_out_last() -> None:
    given = Given()
    given.note(SetShape(SHAPE))
    given.note(ChangeRates(UP_ALONE))
    assert given.shapes == {"usb0": UP_ALONE}
    given.note(RemoveShape("usb0"))
    assert given.shapes == {}


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
        "ip link add name tributary-in2 numtxqueues 1 numrxqueues 1 type ifb",
        "ip link set dev tributary-in2 up",
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
    quality = Quality(settings(text))
    quality.adapters["lte"].rates[Way.DOWN] = 7 * MBIT
    quality.change_settings(settings(text))
    assert quality.adapters["lte"].rates[Way.DOWN] == 7 * MBIT
    quality.change_settings(settings(text.replace("50mbit", "40mbit")))
    assert quality.adapters["lte"].rates[Way.DOWN] == 40 * MBIT
    quality.change_settings(settings(text.replace("adapt = true\n", "")))
    assert quality.adapters == {} and quality.next_due is None
