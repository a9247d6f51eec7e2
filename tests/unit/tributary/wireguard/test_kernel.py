"""What ip(8) says of an interface that is not there any more."""

import pytest

from tests.refusals import command_error
from tributary.kernel import wireguard
from tributary.settings.errors import Exit


@pytest.mark.parametrize("printed", ["[]", "", "[{}, {}]"])
def test_an_interface_that_goes_while_it_is_looked_at_is_an_error_that_names_it(
    printed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wireguard, "output", lambda _command, **_how: printed)
    with command_error(Exit.SYSTEM, "tb0"):
        wireguard.is_set_up("tb0", ["10.84.0.17/32"], 1420, 51840)
    with command_error(Exit.SYSTEM, "tb0"):
        wireguard.set_addresses("tb0", ["10.84.0.17/32"], 1420)
