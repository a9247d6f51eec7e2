import json
from dataclasses import replace
from ipaddress import IPv6Interface, ip_address
from pathlib import Path

import pytest

from router.state.owned import NOTHING_OWNED, OwnershipRecord, RecordFile
from tests.refusals import command_error
from tributary.kernel.state import Limits, OwnAddress
from tributary.settings.errors import Exit

RECORD = OwnershipRecord(
    {128: ip_address("192.168.1.2"), 130: ip_address("2001:db8::2")},
    Limits(2, 0),
    frozenset({"tunnel-dsl"}),
    True,
    "203.0.113.5:51840",
    frozenset({OwnAddress(4, IPv6Interface("2001:db8:1:1::1/64"))}),
)


def test_what_was_saved_is_loaded_and_what_is_forgotten_is_not(tmp_path: Path) -> None:
    store = RecordFile(tmp_path / "not" / "there", 5)
    assert store.load() == NOTHING_OWNED
    store.save(RECORD)
    assert RecordFile(tmp_path / "not" / "there", 5).load() == RECORD
    store.save(NOTHING_OWNED)
    assert store.load() == NOTHING_OWNED
    store.remove()
    store.remove()
    assert list((tmp_path / "not" / "there").iterdir()) == []


def test_each_network_namespace_has_its_own(tmp_path: Path) -> None:
    RecordFile(tmp_path, 5).save(RECORD)
    assert RecordFile(tmp_path, 6).load() == NOTHING_OWNED


WHOLE = {
    "endpoints": {"128": "192.168.1.2"},
    "limits_before": {"subflows": 2, "accepted_addresses": 0},
    "tunnels": [],
    "has_translation": False,
    "gateway": None,
    "lan": [],
}


@pytest.mark.parametrize("name", [name for name in WHOLE if name != "lan"])
def test_a_file_that_lacks_something_is_set_aside_rather_than_taken_for_nothing_owned(
    tmp_path: Path, name: str
) -> None:
    file, told = RecordFile(tmp_path, 5), list[str]()
    (tmp_path / "5.json").write_text(json.dumps({key: value for key, value in WHOLE.items() if key != name}))
    assert file.load(told.append) == NOTHING_OWNED
    assert f"{name}: " in told[0] and file.broken.exists()


def test_a_file_of_a_version_that_knew_no_lan_is_read_and_what_a_later_one_adds_ignored(tmp_path: Path) -> None:
    (tmp_path / "5.json").write_text(json.dumps({key: value for key, value in WHOLE.items() if key != "lan"}))
    assert RecordFile(tmp_path, 5).load() == replace(
        NOTHING_OWNED, endpoints={128: ip_address("192.168.1.2")}, limits_before=Limits(2, 0)
    )
    (tmp_path / "5.json").write_text(json.dumps({**WHOLE, "to_come": 5}))
    assert RecordFile(tmp_path, 5).load().limits_before == Limits(2, 0)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"endpoints": {"x": "1.2.3.4"}, "limits_before": null}', '{"endpoints": 5}', "\xff"]
)
def test_a_file_that_is_not_ours_is_refused_by_its_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "5.json").write_bytes(text.encode("latin-1"))
    with command_error(Exit.SYSTEM, "5.json"):
        RecordFile(tmp_path, 5).load()


def test_a_directory_that_cannot_be_made_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with command_error(Exit.SYSTEM):
        RecordFile(tmp_path / "file", 5).save(RECORD)
