import subprocess
from pathlib import Path

import pytest

from tests.netns.connections import MPTCP, read_all, take
from tests.netns.converter_clients import TUNNELS
from tests.netns.converter_process import METRICS, SERVER, complaint, run
from tests.netns.converter_services import answer, greet, stream
from tests.netns.converter_world import ALL, CLIENTS, EXTRA, GATEWAY, GATEWAY6, LISTENERS, PORTS, World

# Each with what its one line must have.
WRONG = {
    "unknown-key": ("[limits]\nconnection = 5", ["converter.toml:2", "connection", "unknown field"]),
    "unknown-table": ("[limit]\n", ["converter.toml:1", "limit", "unknown field"]),
    "zero-time": ('[timeouts]\ndrain = "0s"', ["timeouts.drain", "above zero"]),
    "negative": ("[limits]\nconnections = -1", ["limits.connections", "-1"]),
    "too-small": ('[limits]\nbuffer = "1B"', ["limits.buffer", "4KiB"]),
    "redirect-with-mptcp": (ALL + "mptcp = true\n", ["mptcp", "redirect"]),
}


@pytest.mark.parametrize(("config", "parts"), WRONG.values(), ids=WRONG)
@pytest.mark.usefixtures("conv")
def test_wrong_configuration_ends_with_64_and_one_line_and_nothing_is_touched(
    tmp_path: Path, config: str, parts: list[str]
) -> None:
    for arguments in (["--check"], []):
        said = complaint(tmp_path, config, *arguments)
        assert all(part in said for part in parts), said
    assert [entry.name for entry in tmp_path.iterdir()] == ["converter.toml"]


def test_check_says_nothing_of_a_right_configuration_and_binds_nothing(conv: World) -> None:
    with conv.converter(ALL) as running:
        # Its ports are taken, and its control socket stays.
        done = run("--check", "--config", str(running.directory / "converter.toml"))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert running.status()["pid"] == running.pid


def test_exit_codes_tell_what_is_wrong(conv: World) -> None:
    assert run("--config", "/nonexistent").returncode == 66
    assert run("--no-such-option").returncode == 64
    assert run("status", "--socket", "/nonexistent").returncode == 69
    assert run("--help").returncode == run("--version").returncode == 0
    with conv.converter(ALL):
        log = conv.refused(ALL, 75)
    assert "3128" in log
    assert "Address already in use" in log


# --- Whom listeners serve, and at which addresses ---


def test_user_and_password_are_asked_for_where_there_are_users(conv: World) -> None:
    users = CLIENTS + '[[listen]]\nkind = "socks5"\naddress = "[::]:1080"\nusers = { one = "secret" }\n'
    with conv.converter(users), conv.serving(answer) as service:

        def curl(login: str) -> int:
            command = ["curl", "-sS", "-m", "5", "-x", f"socks5://{login}{GATEWAY}:1080"]
            command = conv.client.command([*command, f"http://{SERVER}:{service.port}/"])
            return subprocess.run(command, capture_output=True, check=False).returncode

        assert curl("one:secret@") == 0
        assert curl("one:wrong@") == 97
        assert curl("") == 97
        for _ in range(4):
            assert curl("one:wrong@") == 97
        assert curl("one:secret@") == 97, "after five wrong ones it waits"
        assert len(service.peers) == 1


@pytest.mark.parametrize("address", [GATEWAY, GATEWAY6])
def test_listener_can_be_one_family_s_alone(conv: World, address: str) -> None:
    at = f"[{address}]:3128" if ":" in address else f"{address}:3128"
    with conv.converter(CLIENTS + f'[[listen]]\nkind = "http"\naddress = "{at}"\n'):
        conv.connect(address, 3128, MPTCP).close()
        with pytest.raises(ConnectionRefusedError):
            conv.connect(GATEWAY6 if address == GATEWAY else GATEWAY, 3128)


# --- A new configuration at SIGHUP, which disturbs nobody who is served ---


@pytest.mark.parametrize("kind", TUNNELS)
def test_reload_disturbs_no_transfer_and_adds_and_removes_listeners(conv: World, kind: str) -> None:
    size = 16 << 20
    with (
        conv.converter(ALL) as converter,
        conv.serving(stream(size)) as service,
        conv.opened(kind, SERVER, service.port, MPTCP) as client,
    ):
        take(client, 1 << 16)
        assert "reloaded: 6 listeners" in converter.reload(ALL + EXTRA)
        assert [one["name"] for one in converter.status()["listeners"]][-1] == "extra"
        conv.connect(GATEWAY, 3129, node=conv.gateway).close()
        # The listener that the client came by goes, and another stays that has never closed.
        gone = {"connect": "http"}.get(kind, kind)
        rest = "".join(f"[[listen]]{part}" for part in LISTENERS.split("[[listen]]")[1:] if f'"{gone}"' not in part)
        assert "reloaded: 4 listeners" in converter.reload(CLIENTS + rest)
        assert all(conv.nobody_listens(port) for port in (3129, PORTS[gone]))
        data, ended = read_all(client)
        assert (len(data), ended) == (size - (1 << 16), "closed")


def test_wrong_reload_changes_nothing(conv: World) -> None:
    with conv.converter(ALL) as converter, conv.serving(greet) as service:
        addresses = [one["address"] for one in converter.status()["listeners"]]
        for wrong in (
            "[limits]\nnonsense = 1\n",
            ALL.replace('kind = "http"\nname = "http"', 'kind = "socks5"\nname = "http"'),
            "workers = 7\n" + ALL,
            ALL + EXTRA.replace("3129", str(METRICS)).replace("[::]", "127.0.0.1"),
        ):
            assert "not reloaded" in converter.reload(wrong), wrong
            assert [one["address"] for one in converter.status()["listeners"]] == addresses
            assert conv.hears("connect", SERVER, service.port) == "hello"
        assert "not reloaded" not in converter.reload(ALL)


def test_reload_changes_the_backlog_of_listeners_that_stay(conv: World) -> None:
    with conv.converter(ALL) as converter, conv.serving(greet) as service:
        assert conv.backlogs() == {"4096"}
        assert "reloaded: 5 listeners" in converter.reload("[limits]\nbacklog = 77\n" + ALL)
        assert conv.backlogs() == {"77"}
        assert conv.hears("connect", SERVER, service.port, MPTCP) == "hello"


def test_a_listener_that_this_converter_is_in_the_way_of_is_refused_with_that_reason(conv: World) -> None:
    with conv.converter(ALL) as converter:
        log = converter.reload(ALL.replace("[::]:3128", f"{GATEWAY}:3128"))
        assert f"{GATEWAY}:3128: [::]:3128, a listener of this converter, has this port" in log
        assert "by a restart only" in log


def test_a_hundred_reloads_under_load_lose_no_connection(conv: World) -> None:
    with conv.converter(ALL) as converter, conv.serving(answer) as service:
        with conv.asking("absolute", service.port, clients=4) as heard:
            before = converter.descriptors()
            for number in range(100):
                assert "reloaded: " in converter.reload(ALL + (EXTRA if number % 2 == 0 else ""))
        assert len(heard) > 100
        assert set(heard) == {"200"}
        converter.wait_until_idle()
        assert converter.descriptors() <= before + 8


def test_reload_needs_no_descriptors_but_those_for_its_files(conv: World) -> None:
    with conv.converter(ALL) as converter, conv.serving(greet) as service:
        converter.leave_files(0)
        assert "not reloaded" in converter.reload(ALL)
        converter.leave_files(2)
        assert "reloaded: 5 listeners" in converter.reload(ALL)
        # Room for the new socket, and not for its threads: what was there before goes on.
        assert "reloaded" in converter.reload(ALL + EXTRA)
        converter.leave_files(1000)
        assert "reloaded: 5 listeners" in converter.reload(ALL)
        assert conv.hears("connect", SERVER, service.port) == "hello"
