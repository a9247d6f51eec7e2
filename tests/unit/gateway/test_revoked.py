"""What was revoked stays out, whoever puts a copy of its file back: a backup, a playbook, a person."""

import json
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway import enrolment, revoked
from gateway.registry import Registry, Revoked
from gateway.revoked import RevokedKeys
from gateway.settings import GatewaySettings
from gateway.state import State
from gateway.tunnels import Gateway
from tests.refusals import command_error
from tests.unit.gateway.house import MOMENT, key, router
from tributary.settings.errors import CommandError, Exit


@pytest.fixture
def gateway(tmp_path: Path) -> Gateway:
    """Without an interface: its state alone."""
    settings = GatewaySettings.model_validate({"name": "gateway.example.net", "interface": "no-such-link"})
    return Gateway(settings, State(tmp_path / "gateway"))


@pytest.fixture
def registry(gateway: Gateway) -> Registry:
    return gateway.registry


def file(registry: Registry, name: str) -> Path:
    return registry.folder / f"{name}.toml"


def test_a_revoked_routers_file_that_is_put_back_lets_nobody_in(gateway: Gateway, registry: Registry) -> None:
    registry.write("berlin", router(1))
    registry.write("paris", router(2))
    copy = file(registry, "berlin").read_bytes()
    enrolment.revoke(gateway, ["berlin"])
    for name in ("berlin", "under-another-name"):
        file(registry, name).write_bytes(copy)
    contents = registry.look()
    assert list(contents.routers) == ["paris"] and set(contents.faults) == {"berlin", "under-another-name"}
    today = datetime.now(UTC).date()
    assert any(f"revoked on {today}: tributary enrol berlin makes new ones" in note for note in contents.notes)
    with command_error(Exit.USAGE, "its keys were revoked"):
        registry.read()


@pytest.mark.parametrize("is_put_back", [False, True])
def test_who_was_revoked_may_be_enrolled_with_new_keys(gateway: Gateway, registry: Registry, is_put_back: bool) -> None:
    old = enrolment.enrol(gateway, ["berlin"], MOMENT)
    copy = file(registry, "berlin").read_bytes()
    enrolment.revoke(gateway, ["berlin"])
    if is_put_back:
        file(registry, "berlin").write_bytes(copy)
        with pytest.raises(Revoked, match="tributary enrol berlin makes new ones"):
            enrolment.rotate(gateway, "berlin", MOMENT, at_once=True)
    made = enrolment.enrol(gateway, ["berlin"], MOMENT)
    assert made.enrolment.secret != old.enrolment.secret
    assert not [note for note in made.notes if "revoked" in note]
    assert list(registry.read()) == ["berlin"]
    with pytest.raises(CommandError, match="berlin is enrolled: for new keys: tributary rotate berlin"):
        enrolment.enrol(gateway, ["berlin"], MOMENT)


def test_keys_that_a_rotation_replaced_stay_out(gateway: Gateway, registry: Registry) -> None:
    enrolment.enrol(gateway, ["berlin"], MOMENT)
    first = file(registry, "berlin").read_bytes()
    enrolment.rotate(gateway, "berlin", MOMENT, at_once=False)
    between = file(registry, "berlin").read_bytes()
    enrolment.rotate(gateway, "berlin", MOMENT, at_once=False)  # somebody has seen the second secret as well
    unused = registry.read()["berlin"]
    assert unused.next is not None
    file(registry, "berlin").write_bytes(between)
    assert registry.read()["berlin"].next is None, "of the copy the next keys are revoked, the first are in use"
    registry.write("berlin", unused)
    enrolment.rotate(gateway, "berlin", MOMENT, at_once=True)
    now = registry.read()
    for copy in (first, between):
        file(registry, "berlin").write_bytes(copy)
        assert list(registry.look().faults) == ["berlin"]
    registry.write("berlin", now["berlin"])
    assert registry.read() == now


def test_a_copy_from_before_the_end_of_a_rotation_has_the_new_keys(registry: Registry) -> None:
    registry.write("berlin", router(1, following=2, forward=["tcp/443"]))
    assert registry.revoked.add({"berlin": router(1).keys}) == []
    assert registry.read() == {"berlin": router(2, forward=["tcp/443"])}


def test_whatever_is_in_the_file_of_who_is_revoked_its_keys_stay_out_and_those_of_others_in(
    gateway: Gateway, registry: Registry
) -> None:
    registry.write("berlin", router(1))
    registry.write("rome", router(3))
    text = file(registry, "rome").read_text()
    file(registry, "rome").write_text(text.replace("number", "nummer") + f'more = ["{key(1)}"]\n')
    enrolment.revoke(gateway, ["rome"])
    assert list(registry.read()) == ["berlin"]
    file(registry, "rome").write_text(text)
    assert list(registry.look().faults) == ["rome"]


def test_the_list_is_roots_alone_and_keeps_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revoked, "_MOST", 3)
    keys = RevokedKeys(tmp_path / "gateway/revoked.json")
    for number in (1, 2, 3, 4, 4):
        assert keys.add({"berlin": router(number).keys}) == []
    assert set(keys.days()) == {each for number in (2, 3, 4) for each in router(number).keys}
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600
    assert [path.name for path in keys.path.parent.iterdir()] == ["revoked.json"]


@pytest.mark.parametrize("text", ["", "{}x", "[1]", '[{"keys": []}]'])
def test_a_damaged_list_keeps_no_router_out_and_is_named(gateway: Gateway, registry: Registry, text: str) -> None:
    registry.write("berlin", router(1))
    registry.write("paris", router(2))
    registry.revoked.path.write_text(text)
    contents = registry.look()
    assert list(contents.routers) == ["berlin", "paris"]
    (note,) = contents.notes
    assert "revoked.json: cannot be read" in note and "copies of revoked routers' files let them in" in note
    with command_error(Exit.SYSTEM, "revoked.json: cannot be read ", ": correct it or remove it"):
        registry.read()
    notes = enrolment.revoke(gateway, ["berlin"])
    assert any("renamed to revoked.json.broken" in note for note in notes)
    assert set(registry.revoked.days()) == set(router(1).keys)
    (note,) = registry.look().notes
    assert "revoked.json.broken: what it has is not refused" in note and "copies of revoked routers' files" in note
    registry.write("berlin", router(1))
    assert list(registry.look().faults) == ["berlin"], "what was revoked since then stays out"
    registry.revoke(["berlin"], {})
    with pytest.raises(CommandError, match=r"revoked\.json\.broken: .*: add it to revoked\.json, or remove it"):
        registry.read()
    registry.revoked.path.with_name("revoked.json.broken").unlink()
    assert list(registry.read()) == ["paris"] and registry.look().notes == []


def test_who_is_revoked_is_out_also_where_the_list_cannot_be_written(gateway: Gateway, registry: Registry) -> None:
    registry.write("berlin", router(1))
    registry.revoked.path.with_suffix(".new").mkdir()
    notes = enrolment.revoke(gateway, ["berlin"])
    assert registry.read() == {}
    assert "a copy of its file would let it in again" in notes[-1] and "revoked.json: cannot be written" in notes[-1]


def test_the_list_can_be_read_by_a_person(registry: Registry) -> None:
    registry.write("berlin", router(1))
    registry.revoke(["berlin"], {})
    (entry,) = json.loads(registry.revoked.path.read_text())
    assert entry["router"] == "berlin" and len(entry["keys"]) == 9
