"""How much time was stolen, from what /proc/stat says."""

import pytest

from experiments.study.steal import share


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
