import socket
from pathlib import Path

import pytest

from tributary.daemons import notify


@pytest.mark.parametrize(("prefix", "told"), [("", ""), ("\0", "@")], ids=["path", "abstract"])
def test_states_arrive_in_one_datagram(prefix: str, told: str, tmp_path: Path) -> None:
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.settimeout(5)
        receiver.bind(prefix + name)
        assert notify.send(notify.READY, notify.status("2 holds"), environment={"NOTIFY_SOCKET": told + name})
        assert receiver.recv(4096) == b"READY=1\nSTATUS=2 holds"


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1234"}])
def test_nothing_is_sent_where_nobody_asked(environment: dict[str, str]) -> None:
    assert not notify.send(notify.READY, environment=environment)


def test_a_service_manager_that_is_gone_is_no_failure(tmp_path: Path) -> None:
    assert not notify.send(notify.WATCHDOG, environment={"NOTIFY_SOCKET": str(tmp_path / "nobody")})


def test_a_status_cannot_add_a_state_and_a_reload_tells_its_time_in_microseconds() -> None:
    assert notify.status("policy x\nSTOPPING=1") == r"STATUS=policy x\nSTOPPING=1"
    assert notify.reloading(5_000_999) == "RELOADING=1\nMONOTONIC_USEC=5000"


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": ""}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": str(2**64 - 1)}, None),
        ({"WATCHDOG_USEC": "-1"}, None),
        ({"WATCHDOG_PID": "7"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_gets_twice_the_messages_that_it_needs(environment: dict[str, str], seconds: float | None) -> None:
    assert notify.watchdog_interval(environment, pid=7) == seconds
