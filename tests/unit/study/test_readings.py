"""What follows from readings: means, intervals, verdicts."""

import json

import pytest

from experiments.study.command import exit_code
from experiments.study.readings import (
    Decision,
    Estimate,
    Reading,
    Readings,
    Repeated,
    Verdict,
    at_least,
    at_most,
    within,
    worst,
)
from tributary.settings.errors import Exit


def reading(by: str, repetition: int, mbps: float) -> Reading:
    return Reading({"by": by, "family": "ipv4"}, repetition, {"mbps": mbps}, {"wired": [(0.1, mbps)]})


ALL = Readings([*(reading("squid", n, 8.0 + 2 * n) for n in (1, 2, 3)), reading("native", 1, 50)])


def test_interval_is_that_of_student() -> None:
    # Mean 12, standard deviation 2, three numbers: 4.3027 * 2 / sqrt(3).
    estimate = ALL.at(by="squid").estimate("mbps")
    assert (estimate.mean, round(estimate.margin, 3)) == (12.0, 4.968)
    assert str(estimate) == "12.0 ± 5.0"


def test_a_single_number_has_no_interval() -> None:
    assert ALL.at(by="native").estimate("mbps") == Estimate(50, 0)
    assert str(Estimate(0.5, 0)) == "0.50"


# Quantiles for a two-sided 95 % interval, by degrees of freedom: NIST/SEMATECH e-Handbook, section 1.3.6.7.2.
@pytest.mark.parametrize(("degrees", "quantile"), [(1, 12.706), (9, 2.262), (15, 2.131), (39, 2.023), (99, 1.984)])
def test_the_quantile_is_that_of_the_samples_size(degrees: int, quantile: float) -> None:
    numbers = [1.0, 3.0] * ((degrees + 1) // 2)
    deviation = (1 + 1 / degrees) ** 0.5
    assert Estimate.of(numbers).margin == pytest.approx(quantile * deviation / (degrees + 1) ** 0.5, rel=3e-4)


def test_what_was_not_measured_has_no_estimate() -> None:
    with pytest.raises(KeyError):
        ALL.at(by="nobody").estimate("mbps")
    with pytest.raises(KeyError):
        ALL.estimate("seconds")


def test_a_reading_survives_its_file() -> None:
    one = reading("squid", 2, 12.0)
    assert Reading.read(one.as_json()) == one


HOLDS, FAILS, UNDECIDED = Decision.HOLDS, Decision.FAILS, Decision.UNDECIDED


@pytest.mark.parametrize(
    ("mean", "margin", "least", "most"),
    [
        (95.0, 4.0, HOLDS, FAILS),
        (85.0, 4.0, FAILS, HOLDS),
        (91.0, 4.0, UNDECIDED, UNDECIDED),
        (89.0, 4.0, UNDECIDED, UNDECIDED),
        (90.0, 0.0, HOLDS, HOLDS),
        (89.9, 0.0, FAILS, HOLDS),
    ],
)
def test_a_claim_is_decided_by_the_whole_interval(mean: float, margin: float, least: Decision, most: Decision) -> None:
    """An interval that has the bound in it decides nothing, on whichever side its middle is; one number decides."""
    estimate = Estimate(mean, margin)
    assert at_least("it is fast", estimate, 90, "Mbit/s").decision is least
    assert at_most("it is slow", estimate, 90, "Mbit/s").decision is most
    assert at_least("it is fast", estimate, 90, "Mbit/s").bound == "at least 90.0 Mbit/s"


def test_both_ends_of_a_range_decide() -> None:
    inside, across, outside = (within("near", Estimate(mean, 1.0), 8, 12, "MB") for mean in (10.0, 11.5, 14.0))
    assert (inside.decision, across.decision, outside.decision) == (HOLDS, UNDECIDED, FAILS)


OURS = Repeated({1: 50.0, 2: 70.0, 3: 90.0})
THEIRS = Repeated({1: 48.0, 2: 68.0, 3: 88.0})


def test_what_is_measured_together_is_compared_repetition_by_repetition() -> None:
    """Two that differ by 2 in each repetition differ, however much the repetitions do: intervals would overlap."""
    assert OURS.estimate.margin > 40
    assert at_least("more", OURS, THEIRS, "Mbit/s").decision is HOLDS
    assert at_most("less", OURS, THEIRS, "Mbit/s").decision is FAILS
    noisy = Repeated({1: 60.0, 2: 66.0, 3: 90.0})
    told = at_least("more", OURS, noisy, "Mbit/s", because="it rains")
    assert (told.decision, told.because) == (UNDECIDED, "it rains")
    assert "from the bound, by repetition" in told.measured


def test_repetitions_that_only_one_side_has_are_left_out() -> None:
    assert (OURS - Repeated({2: 70.0, 4: 1.0})).numbers == {2: 0.0}
    with pytest.raises(KeyError):
        at_least("more", OURS, Repeated({4: 1.0}), "Mbit/s")


def test_what_must_never_be_is_not_judged_on_average() -> None:
    """One wrong answer of a thousand fails the claim: a mean with its interval would leave it undecided."""
    assert worst("no byte is wrong", [0.0] * 9 + [1.0], 0, "answers").decision is FAILS
    assert worst("no byte is wrong", [0.0] * 9, 0, "answers").decision is HOLDS


def test_a_known_difference_is_one_only_where_the_claim_does_not_hold() -> None:
    because = "another kernel"
    failing = at_most("idle", Estimate(19.0, 0.5), 5, "Mbit/s").or_differs(because)
    assert (failing.decision, failing.because) == (Decision.DIFFERS, because)
    holding = at_most("idle", Estimate(2.0, 0.5), 5, "Mbit/s").or_differs(because)
    assert (holding.decision, holding.because) == (HOLDS, "")
    assert at_most("idle", Estimate(5.0, 0.5), 5, "Mbit/s").or_differs(because).decision is UNDECIDED


def test_a_verdict_survives_its_file_and_nothing_else_is_one() -> None:
    one = at_most("idle", Estimate(19.0, 0.5), 5, "Mbit/s")
    assert Verdict.read(json.loads(json.dumps(one.as_json()))) == one
    with pytest.raises(ValueError, match="no verdict"):
        Verdict.read({"claim": "idle", "measured": "1", "bound": "2", "holds": True})


@pytest.mark.parametrize(
    ("decisions", "code"),
    [
        ([HOLDS, Decision.DIFFERS], 0),
        ([], 0),
        ([HOLDS, UNDECIDED], Exit.UNDECIDED),
        ([UNDECIDED, FAILS, HOLDS], Exit.WRONG_RESULT),
    ],
)
def test_a_command_ends_by_the_worst_that_was_decided(decisions: list[Decision], code: int) -> None:
    assert exit_code(Verdict("c", "m", "b", each) for each in decisions) == code
