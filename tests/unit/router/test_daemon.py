"""What the daemon does at once, for which nothing else would have it reconcile."""

from types import SimpleNamespace

import pytest

from router import daemon
from router.daemon import Daemon


@pytest.mark.parametrize("is_stalled", [True, False])
def test_a_default_tunnel_that_stalls_is_configured_again_at_once(
    is_stalled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links whose own tunnels answer have nothing to say of it, and nothing shows that its peer is gone."""
    monkeypatch.setattr(daemon, "packets", lambda _name: (9, 0))
    forgotten, made = list[str](), Daemon.__new__(Daemon)
    tunnels = SimpleNamespace(answers=True, default_tunnel=SimpleNamespace(name="tb0"))
    health = SimpleNamespace(recheck_all=lambda: None)
    vars(made).update(
        _next_count=0.0,
        _next_reconcile=30.0,
        _log=SimpleNamespace(event=lambda _: None),
        _stall_detector=SimpleNamespace(is_stalled=lambda _: is_stalled, interval=1.0),
        _reconciler=SimpleNamespace(gateway_tunnels=tunnels, forget_configuration=forgotten.append, health=health),
    )
    made._detect_stall(5.0)
    assert (forgotten, made._next_reconcile) == ((["tb0"], 5.0) if is_stalled else ([], 30.0))
