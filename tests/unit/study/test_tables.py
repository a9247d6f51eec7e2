"""Numbers of a report: its tables, its plot, and how much time was stolen meanwhile."""

from base64 import b64decode

import pytest

from experiments.scenarios.legacy import Legacy
from experiments.study.plot import inline, plot
from experiments.study.readings import Reading, Readings
from experiments.study.report import links, numbers
from experiments.study.run import share
from tests.unit.scenarios.made_up import readings, topology
from tests.unit.scenarios.test_downloads import legacy


def at(rate: int, repetition: int, **values: float) -> Reading:
    return Reading({"by": "squid", "rate": f"{rate}mbit"}, repetition, values, {})


def test_each_point_has_a_row_of_estimates_in_the_order_of_its_numbers() -> None:
    readings = [at(20, 1, mbps=18), at(5, 1, mbps=4, bytes=10_000), at(5, 2, mbps=4.5, bytes=10_200)]
    table = numbers(Readings(readings))
    assert table.header == ["by", "rate", "readings", "mbps", "bytes"]
    assert table.rows == [
        ["squid", "5mbit", "2", "4.25 ± 3.18", "10,100 ± 1,271"],
        ["squid", "20mbit", "1", "18.0", ""],
    ]
    assert table.words == 2


def test_points_need_not_have_the_same_circumstances() -> None:
    wider = Reading({"by": "squid", "rate": "5mbit", "buffer": "6MB"}, 1, {"mbps": 3}, {})
    table = numbers(Readings([at(5, 1, mbps=4), wider]))
    assert table.header == ["by", "rate", "buffer", "readings", "mbps"]
    assert table.rows == [["squid", "5mbit", "", "1", "4.00"], ["squid", "5mbit", "6MB", "1", "3.00"]]


def test_links_of_many_testbeds_take_a_row_for_each_description() -> None:
    def testbed(described: float, measured: float) -> dict[str, object]:
        return {"measured": [{"link": "wired", "what": "rtt_ms", "described": described, "measured": measured}]}

    assert links([testbed(10, 10.1), testbed(10, 10.3), testbed(40, 40.0)]).rows == [
        ["wired", "round-trip time, ms", "10.00", "10.10 to 10.30", "2"],
        ["wired", "round-trip time, ms", "40.00", "40.00", "1"],
    ]


def test_the_same_readings_give_the_same_bytes() -> None:
    links, taken = topology(Legacy), readings(Legacy, legacy)
    first, again = (plot("legacy", lambda figure: Legacy().draw(figure, links, taken)) for _ in range(2))
    assert first == again
    # Outlines, which need no font.
    assert "<text" not in first


def test_an_image_holds_all_of_the_plot_and_is_read_out_by_its_label() -> None:
    document = "<svg><style>* {fill: red}</style><script/>é</svg>"
    image = inline(document, 'a "plot" <of>')
    assert image.startswith('<img alt="a &#34;plot&#34; &lt;of&gt;" src="data:image/svg+xml;base64,')
    assert b64decode(image.removesuffix('">').partition(",")[2]).decode() == document


def stat(*ticks: int) -> str:
    return f"cpu  {' '.join(map(str, ticks))}\ncpu0 1 2 3 4 5 6 7 8 9 10\n"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (stat(*[0] * 10), stat(10, 0, 10, 70, 0, 0, 0, 10, 0, 0), 0.1),
        (stat(5, 5, 5, 5, 5, 5, 5, 5, 0, 0), stat(5, 5, 5, 105, 5, 5, 5, 5, 0, 0), 0.0),
        # Guest time is in user time already: proc_stat(5).
        (stat(*[0] * 10), stat(90, 0, 0, 0, 0, 0, 0, 10, 90, 0), 0.1),
        (stat(*[1] * 10), stat(*[1] * 10), 0.0),
    ],
)
def test_stolen_is_a_share_of_all_time_that_passed(before: str, after: str, expected: float) -> None:
    assert share(before, after) == expected
