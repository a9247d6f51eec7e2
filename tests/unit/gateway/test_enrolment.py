"""What a rotation does while the one before has not ended."""

import shutil
from pathlib import Path

import pytest

from gateway import enrolment
from gateway.settings import GatewaySettings
from gateway.state import State
from gateway.tunnels import Gateway
from tests.unit.gateway.house import MOMENT, heard, identity, router
from tributary.kernel import wireguard
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
