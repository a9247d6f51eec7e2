"""What a rotation does while the one before has not ended, and where all numbers are taken."""

import shutil
from pathlib import Path

import pytest

from gateway import enrolment
from gateway.settings import GatewaySettings
from gateway.state import State
from gateway.tunnels import Gateway
from tests.refusals import command_error
from tests.unit.gateway.house import MOMENT, heard, identity, router
from tributary.kernel import wireguard
from tributary.settings.errors import Exit
from tributary.settings.files import check


@pytest.mark.skipif(not shutil.which("wg"), reason="needs wg")
@pytest.mark.parametrize(("used", "kept", "lost"), [(2, 2, 1), (1, 1, 2)])
def test_a_second_rotation_keeps_the_keys_in_use(
    used: int, kept: int, lost: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of the first one, of which no sync has seen yet that they are used."""
    gateway = Gateway(check({"name": "gateway.example.net"}, GatewaySettings, "test"), State(tmp_path))
    gateway.registry.write("berlin", router(1, following=2))
    there = [heard(tunnel, MOMENT.timestamp()) for tunnel in gateway.tunnels({"berlin": router(used)})]
    monkeypatch.setattr(wireguard, "exists", lambda _: True)
    monkeypatch.setattr(wireguard, "peers", lambda _: there)
    monkeypatch.setattr(enrolment, "reconcile", lambda *_: [])
    enrolment.rotate(gateway, "berlin", MOMENT, at_once=False)
    found = gateway.registry.read()["berlin"]
    assert found.next and (found.keys, found.next.number) == (identity(kept).keys, 3)
    assert gateway.registry.revoked.days().keys() == set(identity(lost).keys)


@pytest.mark.skipif(not shutil.which("wg"), reason="needs wg")
def test_where_all_numbers_are_taken_a_rotation_at_once_takes_its_own(tmp_path: Path) -> None:
    """Whose keys are known to others gets new ones there as well."""
    settings = check({"name": "gateway.example.net", "network": "10.84.0.0/26"}, GatewaySettings, "test")
    gateway = Gateway(settings.model_copy(update={"interface": "none-here"}), State(tmp_path))
    for number, name in enumerate(("rome", "berlin", "paris"), start=1):
        gateway.registry.write(name, router(number))
    with command_error(Exit.UNAVAILABLE, "is full: 3 routers; revoke some, or remove its old keys at once"):
        enrolment.rotate(gateway, "berlin", MOMENT, at_once=False)
    enrolment.rotate(gateway, "berlin", MOMENT, at_once=True)
    found = gateway.registry.read()["berlin"]
    assert (found.number, found.lan_number, found.next) == (2, 2, None)
    assert gateway.registry.revoked.days().keys() == set(identity(2).keys)
