"""The life of `squid run`: what it checks before it changes anything, and what it leaves behind: nothing."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from experiments.testbed.node import Node
from squid.host import USER
from tests.netns.connections import TCP
from tests.netns.squid_world import SERVER, SETTINGS, World, net, squid, start_squid, write_settings
from tests.netns.world import eventually, listener_at, small_disk, sysctl
from tributary.daemons import directories

__all__ = ["net"]
pytestmark = pytest.mark.slow


def traces(node: Node, net: World) -> dict[str, object]:
    """What a run in ``node`` could leave: rules, listeners, processes, shared memory, files but logs and cache."""
    namespace = Path(f"/run/netns/{node.namespace}").stat().st_ino
    return {
        "rules": node.run("nft", "list", "ruleset"),
        "listeners": node.run("ss", "-Htln"),
        "processes": node.pids(),
        "memory": sorted(path.name for path in Path("/dev/shm").glob(f"tributary{namespace}-*")),
        "files": sorted(path.name for path in net.directory.glob("*/squid.*")),
        "/run": sorted(path.name for folder in ("/run", "/run/tributary") for path in Path(folder).glob("squid*")),
    }


def run(node: Node, net: World, settings: str, *options: str) -> subprocess.CompletedProcess[str]:
    """`squid run` that is expected to refuse; it may leave no trace."""
    before = traces(node, net)
    file = write_settings(net.directory, settings, "refused")
    ended = ask_to_run(node, file, *options)
    assert traces(node, net) == before
    assert not (net.directory / "refused").exists()
    return ended


def ask_to_run(node: Node, file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = node.command(squid("run", *options, str(file)))
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


def assert_refused(ended: subprocess.CompletedProcess[str], code: int, words: str) -> None:
    assert (ended.returncode, ended.stdout) == (code, "")
    assert ended.stderr.startswith("squid: ")
    assert ended.stderr.count("\n") == 1
    assert words in ended.stderr


@pytest.mark.parametrize(
    ("node", "settings", "code", "words"),
    [
        ("gateway", SETTINGS, 75, "port 3128 of every address is in use"),
        ("gateway", f"port = 3129\n{SETTINGS}", 75, "another `squid run`"),
        ("client", 'listen = ["198.51.100.1"]\n', 69, "no such address here (see the key listen)"),
        ("server", "", 69, "net.mptcp.enabled=1"),
        ("client", 'cache = "1"\n', 64, "cache = '1': accepted: 'off', or a size on disk"),
    ],
    ids=["the-same-port", "the-same-namespace", "no-such-address", "no-mptcp", "a-wrong-setting"],
)
def test_squid_that_cannot_be_is_refused(net: World, node: str, settings: str, code: int, words: str) -> None:
    assert_refused(run(getattr(net, node), net, settings), code, words)


def test_port_that_another_program_has_is_refused(net: World) -> None:
    with listener_at(net.client, 3128, "127.0.0.1", TCP):
        assert_refused(run(net.client, net, ""), 75, "port 3128 of 127.0.0.1 is in use")


def test_dry_run_prints_and_changes_nothing(net: World) -> None:
    shown = run(net.client, net, SETTINGS, "--dry-run")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "http_port 3128\n" in shown.stdout
    assert "acl own_target dst 10.0.0.2/32 " in shown.stdout
    assert "table inet squid {" in shown.stdout


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_nothing_is_left_after_a_signal(net: World, number: signal.Signals, code: int) -> None:
    before = traces(net.client, net)
    running = start_squid(net.client, net.directory, SETTINGS, "signalled")
    assert "inet squid" in net.client.run("nft", "list", "tables")
    assert "3128" in net.client.run("ss", "-HtlnM")
    running.popen.send_signal(number)
    assert running.popen.wait(20) == code
    assert traces(net.client, net) == before


def test_a_guard_that_another_program_flushes_is_back_while_squid_runs_on(net: World) -> None:
    before = traces(net.client, net)
    with start_squid(net.client, net.directory, SETTINGS, "flushed") as running:
        rules = net.client.run("nft", "--stateless", "list", "table", "inet", "squid")
        number = squid_of(net, "flushed")
        net.client.run("nft", "flush", "ruleset")
        eventually(lambda: "inet squid" in net.client.run("nft", "list", "tables"), seconds=5)
        assert net.client.run("nft", "--stateless", "list", "table", "inet", "squid") == rules
        eventually(lambda: "the guard was flushed by another program, and is loaded again" in running.output())
        assert squid_of(net, "flushed") == number
    assert traces(net.client, net) == before


def test_state_directory_of_a_squid_that_still_drains_is_refused(net: World) -> None:
    """Also in another network namespace, where neither the port nor the namespace's lock keeps a second one out."""
    with (
        start_squid(net.client, net.directory, 'drain = "60s"\n', "draining") as running,
        tunnel(net),
        sysctl(net.server, net__mptcp__enabled=1),
    ):
        refuse_state_of(net, "draining")
        running.popen.terminate()
        eventually(lambda: "3128" not in net.client.run("ss", "-HtlnM"))
        refuse_state_of(net, "draining")
    with start_squid(net.client, net.directory, SETTINGS, "draining"):
        pass


def refuse_state_of(net: World, name: str) -> None:
    """Another run with the state directory of a Squid that is there says so, and changes nothing, wherever it is."""
    state, file = net.directory / name, net.directory / f"{name}.toml"
    holder = f"squid: {state} is in use by Squid, process {squid_of(net, name)}, also while it only lets transfers end"
    for node in (net.client, net.server):
        before, config = traces(node, net), (state / "squid.conf").read_bytes()
        ended = ask_to_run(node, file)
        assert_refused(ended, 75, holder)
        assert ended.stderr.endswith(": wait until it has ended, or set another state_directory\n")
        assert (traces(node, net), (state / "squid.conf").read_bytes()) == (before, config)


@contextmanager
def tunnel(net: World) -> Iterator[None]:
    """A transfer through the client's own Squid, which a draining one waits for."""
    with net.connect(("127.0.0.1", 3128)) as connection:
        connection.sendall(f"CONNECT {SERVER}:443 HTTP/1.1\r\nHost: {SERVER}:443\r\n\r\n".encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
        yield


def test_state_directory_that_another_run_has_just_taken_is_refused(net: World) -> None:
    """There is no pid file yet, or no more: Squid writes it once it has begun, and removes it before it ends."""
    state = net.directory / "taken"
    state.mkdir()
    with directories.lock_file(lock := state / "squid.lock"):
        ended = ask_to_run(net.client, write_settings(net.directory, SETTINGS, "taken"))
        assert_refused(ended, 75, f"{state} is in use by another `squid run`, which starts or ends: wait until")
        assert [*state.iterdir()] == [lock]


def test_pid_file_of_a_dead_squid_whose_number_somebody_else_has_is_no_obstacle(net: World) -> None:
    state = net.directory / "reborn"
    state.mkdir()
    (state / "squid.pid").write_text(f"{os.getpid()}\n")
    with start_squid(net.client, net.directory, SETTINGS, "reborn"):
        assert squid_of(net, "reborn") != os.getpid()


def test_squid_that_dies_after_its_log_was_rotated_is_reported_with_its_reason_and_cleaned_up(net: World) -> None:
    log = net.directory / "dying/log/cache.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"of earlier days\n" * 10_000)
    shutil.chown(log, USER)
    before = traces(net.client, net)
    running = start_squid(net.client, net.directory, SETTINGS, "dying")
    log.write_text("2025/11/28 12:00:00| FATAL: no memory\n")
    os.kill(squid_of(net, "dying"), signal.SIGKILL)
    assert running.popen.wait(20) == 71
    assert "squid ended by itself, status -9: FATAL: no memory (see " in running.output()
    after = traces(net.client, net)
    # Squid's own pid file is all that a killed Squid leaves; the next one takes it over.
    assert after["files"] == [*before["files"], "squid.pid"]  # type: ignore[misc]
    assert after | {"files": before["files"]} == before
    start_squid(net.client, net.directory, SETTINGS, "dying").stop()
    assert traces(net.client, net) == before


def test_killed_run_leaves_a_guarded_squid_that_the_next_one_respects_and_then_replaces(net: World) -> None:
    before = traces(net.client, net)
    running = start_squid(net.client, net.directory, SETTINGS, "killed")
    running.kill()
    assert "inet squid" in net.client.run("nft", "list", "tables")
    assert_refused(run(net.client, net, f"port = 3129\n{SETTINGS}"), 75, "another `squid run`")
    orphan = squid_of(net, "killed")
    os.kill(orphan, signal.SIGTERM)
    eventually(lambda: not Path(f"/proc/{orphan}").exists())
    assert start_squid(net.client, net.directory, SETTINGS, "killed").stop() == 143
    assert traces(net.client, net) == before


def squid_of(net: World, name: str) -> int:
    return int((net.directory / name / "squid.pid").read_text())


@pytest.mark.parametrize(
    ("privacy", "shown"),
    [("full", ["10.0.0.2", "fd00::2"]), ("network", ["10.0.0.0", "-"]), ("none", ["-", "-"])],
)
def test_the_log_has_of_clients_what_the_settings_allow(net: World, privacy: str, shown: list[str]) -> None:
    settings = f'{SETTINGS}privacy = "{privacy}"\n'
    with start_squid(net.client, net.directory, settings, f"private-{privacy}"):
        for own in ("10.0.0.2", "fd00::2"):
            assert net.ask("GET", f"http://{SERVER}/", (own, 3128)).status == 200
        log = net.directory / f"private-{privacy}/log/access.log"
        eventually(lambda: log.read_text().count("\n") == 2)
        lines = log.read_text().splitlines()
    assert [line.split()[2] for line in lines] == shown
    assert all(" GET http://203.0.113.2/ " in line for line in lines)


def test_squid_serves_without_its_log_while_the_disk_is_full(net: World) -> None:
    with small_disk(net.directory / "full", "1m") as disk, start_squid(net.client, net.directory, SETTINGS, "full"):
        fill(disk)
        own, before = ("10.0.0.2", 3128), squid_of(net, "full")
        assert [net.ask("GET", f"http://{SERVER}/", own).status for _ in range(2)] == [200, 200]
        assert ((disk / "log/access.log").stat().st_size, squid_of(net, "full")) == (0, before)
        (disk / "filler").unlink()
        assert net.ask("GET", f"http://{SERVER}/", own).status == 200
        eventually(lambda: (disk / "log/access.log").read_text().count("\n") == 1)


def fill(disk: Path) -> None:
    """Leave no block of it free."""
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
