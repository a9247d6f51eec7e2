"""The tables of a report."""

from experiments.study.readings import Reading, Readings
from experiments.study.tables import links, numbers


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
