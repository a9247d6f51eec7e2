import pytest

from tributary.daemons.text import age, scaled


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        *((0, "0 B"), (512, "512 B"), (999, "999 B"), (999.5, "1.00 kB"), (1500, "1.50 kB"), (12_345, "12.3 kB")),
        *((999_499, "999 kB"), (9_999_000, "10.0 MB"), (999_600_000, "1.00 GB"), (5 * 10**9, "5.00 GB")),
        *((31_914_983_424, "31.9 GB"), (10**16, "10.0 PB"), (10**19, "10000 PB")),
    ],
)
def test_amounts_have_three_digits(amount: float, text: str) -> None:
    assert scaled(amount, "B") == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.9, "0 s"), (75, "1 min 15 s"), (7500, "2 h 05 min"), (273_600, "3 d 04 h")]
)
def test_ages_have_two_units(seconds: float, text: str) -> None:
    assert age(seconds) == text
