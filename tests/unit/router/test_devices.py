from pathlib import Path
from typing import Any

import pytest

from router.lan.devices import devices, names, shown
from router.lan.tables import LanTables
from tests.unit.router.house import SETTINGS, settings
from tributary.kernel import nft, nft_tables
from tributary.kernel.state import Mark, Rule
from tributary.paths import ROOT
from tributary.settings.privacy import Privacy

STARTED = Rule(8300, Mark(4, 1), 8300, 3)
LAPTOP, PHONE = "02:00:00:00:00:01", "02:00:00:00:00:02"
Counted = dict[str, dict[Any, int]]


def test_the_addresses_of_a_device_are_put_together_by_its_mac_address() -> None:
    counted: Counted = {
        "sent4": {(LAPTOP, "192.168.77.9"): 100, (LAPTOP, "0.0.0.0"): 5, (PHONE, "192.168.77.10"): 7},
        "received4": {"192.168.77.9": 1000},
        "sent6": {(LAPTOP, "2001:db8::9"): 20, (LAPTOP, "fe80::9"): 3},
        "received6": {"2001:db8::9": 200, "fe80::9": 1, "2001:db8::99": 5000},
    }
    laptop, phone = devices(counted, {LAPTOP: "laptop"})
    assert laptop == {
        "mac": LAPTOP,
        "name": "laptop",
        "addresses": ["192.168.77.9", "2001:db8::9"],
        "sent": 1201,
        "received": 128,
    }
    assert (phone["name"], phone["sent"], phone["received"]) == (None, 0, 7)


def test_an_address_of_two_devices_counts_once() -> None:
    counted: Counted = {"sent4": {(LAPTOP, "10.0.0.9"): 1, (PHONE, "10.0.0.9"): 2}, "received4": {"10.0.0.9": 10}}
    found = devices({**counted, "sent6": {}, "received6": {}}, {})
    assert sum(each["sent"] for each in found) == 10


SEEN: Counted = {
    "sent4": {(LAPTOP, "192.168.77.9"): 100, (LAPTOP, "192.168.77.19"): 7, (PHONE, "192.168.77.10"): 7},
    "received4": {"192.168.77.9": 1000},
    "sent6": {(LAPTOP, "2001:db8:1:2::9"): 20},
    "received6": {},
}


@pytest.mark.parametrize(("privacy", "addresses"), [("network", ["192.168.77.0", "2001:db8:1::"]), ("none", [])])
def test_who_a_device_is_can_be_hidden_and_not_what_it_uses(privacy: Privacy, addresses: list[str]) -> None:
    found = devices(SEEN, {LAPTOP: "laptop"})
    laptop, phone = shown(found, privacy, b"one")
    assert (laptop["addresses"], laptop["name"], laptop["sent"], laptop["received"]) == (
        addresses, None, 1000, 127,
    )  # fmt: skip
    assert LAPTOP not in str(laptop) and laptop["mac"] != phone["mac"]
    assert shown(found, privacy, b"one") == [laptop, phone]
    assert shown(found, privacy, b"another")[0]["mac"] != laptop["mac"]
    assert shown(found, "full", b"one") == found


def test_devices_are_hidden_from_the_reload_on_that_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nft, "counted", lambda _table: SEEN)
    monkeypatch.setattr(nft, "execute", lambda _script: None)
    monkeypatch.setattr(nft_tables, "handle", lambda _table: 1)
    lan = f'lan = "end0"\nleases = "{tmp_path}/leases"\n'
    tables, seen = LanTables(tmp_path / "lan.nft"), []
    for second, privacy in enumerate(("full", "none", "none")):
        tables.change_settings(settings(f'{lan}privacy = "{privacy}"\n{SETTINGS}'))
        seen.append([each["mac"] for each in tables.shown(second)["devices"]])  # type: ignore[attr-defined]
    assert seen[0] == [LAPTOP, PHONE] and not {LAPTOP, PHONE}.intersection(seen[1]) and seen[2] == seen[1]


@pytest.mark.parametrize(
    ("rules", "has_file", "service"),
    [((STARTED,), True, ["inet tributary-lan"]), ((), True, []), ((STARTED,), False, [])],
    ids=["started", "stopped", "another's rule"],
)
def test_tables_that_another_program_removed_are_made_again_and_named(
    rules: tuple[Rule, ...], has_file: bool, service: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    executed, there, file = list[str](), set[str](), tmp_path / "lan.nft"
    monkeypatch.setattr(nft, "execute", executed.append)
    monkeypatch.setattr(nft_tables, "handle", lambda table: 1 if table in there else None)
    if has_file:
        file.touch()
    tables = LanTables(file)
    tables.change_settings(settings(f'lan = "end0"\n{SETTINGS}'))
    executed.clear()
    assert list(tables.restore(rules)) == ["inet tributary-devices", *service]
    assert [f'include "{file}"' in script for script in executed] == [False, *(True for _ in service)]
    there.update(("inet tributary-devices", *service))
    assert list(tables.restore(rules)) == []


def test_the_rules_by_which_the_lan_s_service_is_known_to_be_started_go_before_its_table() -> None:
    unit = (ROOT / "image/firstboot/tributary-lan.service").read_text()
    rule = f"priority {STARTED.priority} fwmark 0x1 lookup {STARTED.table}\n"
    assert f"ip rule add {rule}" in unit and unit.rindex(f"rule del {rule}") < unit.index("nft delete table")


def test_names_are_those_of_the_leases_and_text() -> None:
    leases = f"""\
1790000000 {LAPTOP} 192.168.77.9 laptop 01:{LAPTOP}
1790000000 {PHONE.upper()} 192.168.77.10 <script>alert(1)</script> *
1790000000 02:00:00:00:00:03 192.168.77.11 * *
1790000000 02:00:00:00:00:04 192.168.77.12 {"x" * 300} *
duid 00:01:00:01:2c
1790000000 12345 2001:db8::9 laptop 00:01:00:01
nothing
"""
    assert names(leases) == {LAPTOP: "laptop", PHONE: "<script>alert(1)</script>", "02:00:00:00:00:04": "x" * 63}
