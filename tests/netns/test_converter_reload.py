"""The native converter takes a new configuration at SIGHUP, and disturbs nobody who is served."""

import threading

import pytest

from tests.netns.converter_clients import TUNNELS, hears, nobody_listens, opened, read_all, take
from tests.netns.converter_services import answer, greet, stream
from tests.netns.converter_world import (
    ALL,
    CLIENTS,
    EXTRA,
    GATEWAY,
    LISTENERS,
    METRICS,
    MPTCP,
    PORTS,
    SERVER,
    World,
    leave_files,
    needs_tools,
)

pytestmark = needs_tools


@pytest.mark.parametrize("kind", TUNNELS)
def test_reload_disturbs_no_transfer_and_adds_and_removes_listeners(conv: World, kind: str) -> None:
    size = 16 << 20
    with (
        conv.converter(ALL) as converter,
        conv.serving(stream(size)) as service,
        opened(conv, kind, SERVER, service.port, MPTCP) as client,
    ):
        take(client, 1 << 16)
        assert "reloaded: 6 listeners" in converter.reload(ALL + EXTRA)
        assert [one["name"] for one in converter.status()["listeners"]][-1] == "extra"
        conv.connect(GATEWAY, 3129, node=conv.gateway).close()
        # The listener that the client came by goes, and another stays that has never closed.
        gone = {"connect": "http"}.get(kind, kind)
        rest = "".join(f"[[listen]]{part}" for part in LISTENERS.split("[[listen]]")[1:] if f'"{gone}"' not in part)
        assert "reloaded: 4 listeners" in converter.reload(CLIENTS + rest)
        assert all(nobody_listens(conv, port) for port in (3129, PORTS[gone]))
        data, ended = read_all(client)
        assert (len(data), ended) == (size - (1 << 16), "closed")


def test_wrong_reload_changes_nothing(conv: World) -> None:
    with conv.converter(ALL) as converter, conv.serving(greet) as service:
        listeners = converter.status()["listeners"]
        for wrong in (
            "[limits]\nnonsense = 1\n",
            ALL.replace('kind = "http"\nname = "http"', 'kind = "socks5"\nname = "http"'),
            "workers = 7\n" + ALL,
            ALL + EXTRA.replace("3129", str(METRICS)).replace("[::]", "127.0.0.1"),
        ):
            assert "not reloaded" in converter.reload(wrong), wrong
            assert [one["address"] for one in converter.status()["listeners"]] == [one["address"] for one in listeners]
            assert hears(conv, "connect", SERVER, service.port) == "hello"
        assert "not reloaded" not in converter.reload(ALL)


def backlogs(world: World) -> set[str]:
    """Of two listeners, one of which speaks MPTCP."""
    which = ("sport", f"= :{PORTS['http']}", "or", "sport", f"= :{PORTS['redirect']}")
    return {line.split()[2] for line in world.gateway.run("ss", "-Hltn", *which).splitlines()}


def test_reload_changes_the_backlog_of_listeners_that_stay(conv: World) -> None:
    with conv.converter(ALL) as converter, conv.serving(greet) as service:
        assert backlogs(conv) == {"4096"}
        assert "reloaded: 5 listeners" in converter.reload("[limits]\nbacklog = 77\n" + ALL)
        assert backlogs(conv) == {"77"}
        assert hears(conv, "connect", SERVER, service.port, MPTCP) == "hello"


def test_a_listener_that_this_converter_is_in_the_way_of_is_refused_with_that_reason(conv: World) -> None:
    with conv.converter(ALL) as converter:
        log = converter.reload(ALL.replace("[::]:3128", f"{GATEWAY}:3128"))
        assert f"{GATEWAY}:3128: [::]:3128, a listener of this converter, has this port" in log
        assert "by a restart only" in log


def test_a_hundred_reloads_under_load_lose_no_connection(conv: World) -> None:
    heard: list[str] = []
    with conv.converter(ALL) as converter, conv.serving(answer) as service:
        stop = threading.Event()

        def ask() -> None:
            while not stop.is_set():
                heard.append(hears(conv, "absolute", SERVER, service.port))

        asking = [threading.Thread(target=ask) for _ in range(4)]
        for thread in asking:
            thread.start()
        before = converter.descriptors()
        try:
            for number in range(100):
                assert "reloaded: " in converter.reload(ALL + (EXTRA if number % 2 == 0 else ""))
        finally:
            stop.set()
            for thread in asking:
                thread.join(10)
        assert len(heard) > 100
        assert set(heard) == {"200"}
        converter.wait_until_idle()
        assert converter.descriptors() <= before + 8


def test_reload_needs_no_descriptors_but_those_for_its_files(conv: World) -> None:
    with conv.converter(ALL) as converter, conv.serving(greet) as service:
        leave_files(converter, 0)
        assert "not reloaded" in converter.reload(ALL)
        leave_files(converter, 2)
        assert "reloaded: 5 listeners" in converter.reload(ALL)
        # Room for the new socket, and not for its threads: what was there before goes on.
        assert "reloaded" in converter.reload(ALL + EXTRA)
        leave_files(converter, 1000)
        assert "reloaded: 5 listeners" in converter.reload(ALL)
        assert hears(conv, "connect", SERVER, service.port) == "hello"
