import pytest

from tributary.kernel import nft_tables
from tributary.kernel.nft_tables import are_lost


@pytest.mark.parametrize(
    ("known", "lost"),
    [
        ({"inet a": 1, "netdev b": 2}, False),
        ({"inet a": 1, "netdev b": 3}, True),
        ({"inet a": 1, "inet gone": 5}, True),
        # It went before anybody looked.
        ({"inet a": 1, "inet gone": None}, True),
        ({}, False),
    ],
)
def test_a_table_is_lost_that_is_not_there_or_is_another_one(
    known: dict[str, int | None], lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nft_tables, "handle", {"inet a": 1, "netdev b": 2}.get)
    assert are_lost(known) is lost
