"""The kernel's own MPTCP events and sockets, as the throttler reads them, from real sessions."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.netns.links_world import AT_CLIENT, AT_GATEWAY, CLIENT, GATEWAY, connection, endpoint
from tests.netns.world import Child, eventually, in_namespace, on, program, ready, run, sysctl

pytestmark = pytest.mark.usefixtures("world")


class Listener:
    def __init__(self, child: Child) -> None:
        self.child = child
        self.seen: list[dict[str, Any]] = []

    def ask(self, what: str) -> Any:
        return json.loads(self.child.ask(what))

    def kinds(self) -> list[str]:
        """The kinds of all events so far."""
        self.seen += self.ask("events")
        return [event["kind"] for event in self.seen]


@contextmanager
def listener(buffer: int = 1 << 20) -> Iterator[Listener]:
    with ready(*in_namespace(GATEWAY, *program("event_listener", str(buffer)))) as child:
        yield Listener(child)


def test_a_session_its_join_and_its_end_are_reported_in_order_and_agree_with_the_sockets() -> None:
    with listener() as events:
        with connection() as client:
            eventually(lambda: events.kinds() == ["SubflowEstablished"] * 2)
            first, joined = events.seen
            assert (first["initial"], first["interface"]) == (True, "wired")
            assert (joined["initial"], joined["interface"]) == (False, "wireless")
            assert first["token"] == joined["token"]
            found = {event["subflow"]: event for event in events.ask("snapshot")}
            assert found == {event["subflow"]: event for event in events.seen}
            client.transfer(100_000)
            # Acknowledgements of the last bytes may be on their way.
            eventually(lambda: sum(sent for _, sent, _ in events.ask("traffic")) >= 100_000)
            assert {name for name, _, _ in events.ask("traffic")} == set(found)
            client.close()
        eventually(lambda: events.kinds()[-1] == "SessionClosed")
        assert eventually(lambda: events.ask("snapshot") == [])


def test_a_subflow_whose_endpoint_goes_is_closed_and_a_backup_is_reported() -> None:
    with listener() as events, connection():
        eventually(lambda: events.kinds() == ["SubflowEstablished"] * 2)
        number = endpoint(CLIENT, "10.0.2.2")
        on(CLIENT, f"ip mptcp endpoint change id {number} backup")
        try:
            eventually(lambda: "SubflowPriority" in events.kinds())
            assert events.seen[-1]["backup"] is True
            on(CLIENT, f"ip mptcp endpoint del id {number}")
            eventually(lambda: "SubflowClosed" in events.kinds())
        finally:
            on(CLIENT, f"ip mptcp endpoint del id {number}", check=False)
            on(CLIENT, "ip mptcp endpoint add 10.0.2.2 dev wireless subflow")


def test_after_events_were_lost_none_that_are_older_come() -> None:
    with listener(buffer=1) as events:
        for _ in range(40):
            with connection() as client:
                client.close()
        answers = [events.ask("events") for _ in range(3)]
        assert "lost" in answers
        assert answers[answers.index("lost") + 1] == []


def chosen(name: str) -> str:
    """The source that ``auto`` picks in a namespace."""
    program = "from throttler.service.start import choose; print(choose())"
    return run(*in_namespace(name, sys.executable, "-c", program)).strip()


def test_auto_takes_the_kernel_where_sessions_end_and_the_wire_on_a_router_without_them() -> None:
    assert chosen(GATEWAY) == chosen(CLIENT) == "kernel"
    with sysctl(AT_GATEWAY, net__ipv4__ip_forward=1), sysctl(AT_CLIENT, net__ipv4__ip_forward=1):
        assert (chosen(GATEWAY), chosen(CLIENT)) == ("kernel", "sniffer")
