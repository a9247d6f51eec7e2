from datetime import datetime
from pathlib import Path

import pytest

from throttler.policy.decide import Owner
from throttler.policy.model import Rule
from throttler.policy.quotas import Quotas
from throttler.policy.values import Period, Quota, SharedBy
from throttler.service.state import Store
from tributary.settings.units import Size

NOW = datetime(2026, 11, 21, 12, 0)
RULE = Rule(name="lte", quota=Quota(Size.parse("100MB"), Period.DAY))
OWNER = Owner("lte", SharedBy.CLIENT, "10.0.0.1")


def test_what_was_used_comes_back(tmp_path: Path) -> None:
    store, told = Store(tmp_path), list[str]()
    store.load_into(Quotas(), [RULE], NOW, told.append)
    store.save([(OWNER, "2026-11-21T00:00:00", 100_000_000), (Owner("lte", SharedBy.CLIENT, "10.0.0.2"), "x", 0)])
    quotas = Quotas()
    Store(tmp_path).load_into(quotas, [RULE], NOW, told.append)
    assert (quotas.used(), set(quotas.exhausted), told) == ([(OWNER, "2026-11-21T00:00:00", 100_000_000)], {OWNER}, [])


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"meters": [{"rule": "gone"}]}',
        '{"meters": [{"rule": "lte", "since": "2026-11-21T00:00:00", "shared_by": "rule", "owner": "", "used": "7"}]}',
        '{"meters": [5]}',
        '{"meters": [{"rule": "lte", "since": "2026-11-21T00:00:00", "shared_by": "rule", "owner": "", "used": 7}, 5]}',
        '{"meters": [{"rule": "lte", "since": "2026-11-21T00:00:00", "shared_by": "nobody", "owner": "x", "used": 7}]}',
    ],
)
def test_a_damaged_file_is_renamed_and_reported_and_counts_as_missing(text: str, tmp_path: Path) -> None:
    (tmp_path / "quotas.json").write_text(text)
    quotas, told = Quotas(), list[str]()
    Store(tmp_path).load_into(quotas, [RULE], NOW, told.append)
    assert quotas.used() == [] and len(told) == 1 and "quotas.json.broken" in told[0]
    assert [file.name for file in tmp_path.iterdir()] == ["quotas.json.broken"]


def test_what_a_later_version_adds_is_ignored(tmp_path: Path) -> None:
    use = '{"rule": "lte", "since": "2026-11-21T00:00:00", "shared_by": "client", "owner": "10.0.0.1","used":7,"x":1}'
    (tmp_path / "quotas.json").write_text(f'{{"meters": [{use}], "to_come": {{}}}}')
    quotas, told = Quotas(), list[str]()
    Store(tmp_path).load_into(quotas, [RULE], NOW, told.append)
    assert (quotas.used(), told) == ([(OWNER, "2026-11-21T00:00:00", 7)], [])
