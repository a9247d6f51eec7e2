"""What follows from readings: means, intervals, verdicts."""

import pytest

from experiments.study.readings import Estimate, Reading, Readings, at_least


def reading(by: str, repetition: int, mbps: float) -> Reading:
    return Reading({"by": by, "family": "ipv4"}, repetition, {"mbps": mbps}, {"wired": [(0.1, mbps)]})


ALL = Readings(
    [reading("squid", 1, 10.0), reading("squid", 2, 12.0), reading("squid", 3, 14.0), reading("native", 1, 50)]
)


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


@pytest.mark.parametrize(("mean", "holds"), [(90.0, True), (89.9, False)])
def test_a_verdict_can_fail(mean: float, holds: bool) -> None:
    verdict = at_least("it is fast", Estimate(mean, 1.0), 90, "Mbit/s")
    assert verdict.holds == holds
    assert verdict.bound == "at least 90.0 Mbit/s"
