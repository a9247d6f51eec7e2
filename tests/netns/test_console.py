import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from threading import Event

import pytest

from command import box
from console.password import hashed
from tests.doctor_fix import listening
from tests.netns.console_world import FREE, Browser, console, examined, throttler_stand_in, token
from tests.netns.links_world import AT_GATEWAY, GATEWAY, connection
from tests.netns.throttler_world import throttler, tributary
from tests.netns.world import Child, eventually, in_namespace, on, ready, run, serving, small_disk
from tributary.api.places import CONSOLE, EXAMINED
from tributary.paths import ROOT

pytestmark = pytest.mark.usefixtures("world")

FORMER = "$7$C6....3....pWLdKri1ik7SbnQEfrypm/$A3BHLMLPLqnqsyDaWnKWAnjlJD5RwiTDGxTbFi0TofD"
"""The hash of `correct horse` as the console made it before it had Argon2."""


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with throttler("kernel", FREE), console(tmp_path / "state") as (made, _):
        yield made


@pytest.fixture
def another(browser: Browser) -> Browser:
    """One of another address."""
    return Browser(browser.port, "127.0.0.9")


def limits() -> dict[str, str | None]:
    """Of all paths, as ``tributary links`` shows them; no program starts for it."""
    with AT_GATEWAY.entered():
        return {each.name: each.limit for each in box.Answers().links().documents}


@pytest.mark.smoke
def test_a_path_is_limited_by_who_has_logged_in_and_freed_again(browser: Browser) -> None:
    look = browser.get("look")
    assert [link["name"] for link in look["links"]] == ["wired", "wireless"]
    assert browser.get("who") == {"version": 1, "manages": False, "name": None, "reading": "open", "password": False}
    assert "log in first" in browser.post("limit", 401, path="wired", rate="3mbit")["error"]
    browser.login()
    assert browser.get("who")["name"] == "root"
    entry = browser.post("limit", path="wired", rate="3mbit")["entry"]
    assert (entry["who"], entry["subject"], entry["before"], entry["after"]) == ("root", "path wired", None, "3mbit")
    assert limits() == {"wired": "3mbit", "wireless": None}
    assert browser.post("limit", path="wired", rate="3mbit")["entry"] is None
    assert "accepted" in browser.post("limit", 400, path="wired", rate="fast")["error"]
    assert "accepted: a path" in browser.post("limit", 400, path="nowhere", rate="3mbit")["error"]
    undone = browser.post("undo", entry=entry["id"])["entry"]
    assert (undone["before"], undone["after"]) == ("3mbit", None)
    assert limits() == {"wired": None, "wireless": None}
    assert "not undone yet" in browser.post("undo", 400, entry=entry["id"])["error"]
    assert [each["undone"] for each in browser.get("journal")["entries"]] == [False, True]


def test_a_change_is_not_undone_over_a_later_one(browser: Browser) -> None:
    browser.login()
    entry = browser.post("limit", path="wired", rate="3mbit")["entry"]
    tributary("limit", "wired", "4mbit")
    assert "has changed since" in browser.post("undo", 400, entry=entry["id"])["error"]
    assert limits()["wired"] == "4mbit"


def test_sessions_are_shown_filtered_and_explained(browser: Browser) -> None:
    with connection() as client:
        client.request(200_000_000)
        (session,) = eventually(lambda: [each for each in browser.get("look")["sessions"] if each["sent_rate"]])
        assert {subflow["path"] for subflow in session["subflows"]} == {"wired", "wireless"}
        for fits, query in ((1, f"client={session['client']}"), (1, "path=wired"), (0, "path=x"), (0, "rule=x")):
            assert browser.get(f"sessions?{query}")["total"] == fits
        assert [len(browser.get(f"sessions?offset={offset}")["sessions"]) for offset in (0, 1)] == [1, 0]
        assert browser.get(f"explain/{session['token']}")["subflows"][0]["token"] == session["token"]
        assert browser.ask("GET", "/api/v1/explain/nothing")[0] == 400
        history = browser.get("history?seconds=300")
        assert max(rate or 0 for rate in history["links"]["wired"]["sent"]) > 1e6


def test_pages_get_a_look_each_second(browser: Browser) -> None:
    with browser.stream() as page:
        stream = page.makefile("rb")
        lines = [stream.readline() for _ in range(60)]
    (described,) = browser.get("openapi.json")["paths"]["/api/v1/stream"]["get"]["responses"]["200"]["content"]
    assert f"content-type: {described}".encode() in b"".join(lines).lower()
    looks = [json.loads(line[6:]) for line in lines if line.startswith(b"data: ")]
    times = [look["time"] for look in looks]
    assert len(times) >= 3 and all(0.8 < after - before < 3 for before, after in pairwise(times))


def test_a_strangers_request_is_refused(browser: Browser) -> None:
    browser.login()
    for headers, status in (
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ):
        assert browser.ask("POST", "/api/v1/limit", {"path": "wired", "rate": "3mbit"}, **headers)[0] == status
    thief = Browser(browser.port, "127.0.0.2", browser.cookie)
    assert thief.get("who")["manages"] is False
    thief.post("limit", 401, path="wired", rate="3mbit")
    assert browser.ask("GET", "/", Host="evil.example")[0] == 421
    assert limits()["wired"] is None


def test_what_is_too_much_is_refused_and_the_rest_goes_on(browser: Browser) -> None:
    browser.login()
    with browser.connect() as page:
        page.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{browser.port}\r\nCookie: ".encode())
        with suppress(ConnectionError):
            page.sendall(b"x" * (1 << 20))
            assert page.recv(100).startswith(b"HTTP/1.1 400 ")
    assert browser.ask("POST", "/api/v1/limit", {"path": "x" * (1 << 20), "rate": None})[0] == 413
    assert browser.ask("GET", "/static/../settings.py")[0] == 404
    assert browser.ask("GET", "/static/%2e%2e/settings.py")[0] == 404
    assert browser.ask("PUT", "/api/v1/limit", {})[0] == 405
    assert browser.get("who")["manages"]


def test_a_thousand_idle_connections_lock_nobody_out(browser: Browser) -> None:
    with ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(browser.connect())
        start = time.monotonic()
        assert browser.get("who")["version"] == 1
        assert time.monotonic() - start < 5


def test_requests_that_do_not_end_lock_nobody_out(browser: Browser, another: Browser) -> None:
    head = f"POST /api/v1/login HTTP/1.1\r\nHost: 127.0.0.1:{browser.port}\r\nContent-Length: 10\r\n"
    head += f"Origin: http://127.0.0.1:{browser.port}\r\nContent-Type: application/json\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(600):
            slow = stack.enter_context(another.connect())
            with suppress(ConnectionError):
                slow.sendall(head.encode())
        assert [browser.get("who")["version"] for _ in range(20)] == [1] * 20


def test_streams_of_one_address_leave_room_to_others(browser: Browser, another: Browser) -> None:
    with ExitStack() as stack:
        first = [stack.enter_context(another.stream()).recv(12) for _ in range(150)]
        assert first.count(b"HTTP/1.1 200") == 104 and first.count(b"HTTP/1.1 503") == 46
        assert browser.ask("HEAD", "/api/v1/stream")[0] == 405
        with browser.stream() as other:
            assert other.recv(12) == b"HTTP/1.1 200"


def test_connections_that_have_ended_leave_nothing(tmp_path: Path) -> None:
    with console(tmp_path / "state") as (browser, child):
        for _ in range(3000):
            with browser.connect() as one:
                one.sendall(b"GET / HTTP/1.1\r\nCookie: " + b"a" * 60_000)
        assert browser.get("who")
        assert memory(child, "VmRSS") < 120_000


def test_a_silent_connection_is_closed(browser: Browser) -> None:
    with browser.connect() as silent:
        silent.sendall(b"GET / HTTP/1.1\r\n")
        assert silent.recv(1) == b""


def test_a_password_logs_in_until_it_is_wrong_too_often(browser: Browser, tmp_path: Path) -> None:
    browser.post("login", 403, password="correct horse")
    set_password("correct horse")
    assert browser.get("who")["password"]
    browser.post("login", 204, password="correct horse")
    assert browser.get("who")["name"] == "password"
    start = time.monotonic()
    statuses = [browser.ask("POST", "/api/v1/login", {"password": f"wrong {each}"})[0] for each in range(1000)]
    assert statuses[:5] == [403] * 5 and set(statuses) == {403, 429}
    assert statuses.count(403) <= 5 + (time.monotonic() - start) / 30
    browser.post("login", 429, password="correct horse")
    browser.post("login", 204, token=token(GATEWAY))
    assert "correct horse" not in (tmp_path / "state/password.json").read_text()
    tributary("console", "logout")
    assert not browser.get("who")["manages"]


def test_a_hash_in_the_settings_logs_in_until_another_password_is_set(tmp_path: Path) -> None:
    line = f'password_hash = "{hashed("correct horse")}"\n'
    with console(tmp_path / "state", line) as (browser, _):
        assert browser.get("who")["password"]
        browser.post("login", 204, password="correct horse")
        set_password("another one")
        browser.post("login", 403, password="correct horse")
        browser.post("login", 204, password="another one")
        set_password("")
        browser.post("login", 204, password="correct horse")


def test_a_former_hash_logs_in_and_stays_for_a_version_that_is_gone_back_to(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "password.json").write_text(json.dumps(FORMER))
    with console(state, f'password_hash = "{hashed("another one")}"\n') as (browser, _):
        browser.post("login", 403, password="correct house")
        browser.post("login", 204, password="correct horse")
    assert json.loads((state / "password.json").read_text()) == FORMER


def test_passwords_are_tried_one_at_a_time_and_cost_no_memory_afterwards(tmp_path: Path) -> None:
    with console(tmp_path / "state", f'password_hash = "{hashed("correct horse")}"\n') as (browser, child):
        assert browser.get("who")["password"]
        before = memory(child, "VmRSS")
        with ThreadPoolExecutor(2) as threads:
            asked = [threads.submit(browser.ask, "POST", "/api/v1/login", {"password": "wrong"}) for _ in range(2)]
        assert [each.result()[0] for each in asked] == [403] * 2
        assert memory(child, "VmHWM") - before < 100 << 10
        assert memory(child, "VmRSS") - before < 20 << 10


def memory(child: Child, kind: str) -> int:
    """KiB."""
    found = re.search(rf"{kind}:\s+(\d+)", Path(f"/proc/{child.pid}/status").read_text())
    assert found is not None
    return int(found[1])


def test_it_says_itself_where_its_page_is_and_how_many_are_open(browser: Browser) -> None:
    assert json.loads(tributary("status", "console"))["pages"] == [f"http://127.0.0.1:{browser.port}/"]
    with browser.stream() as page:
        assert page.recv(16).startswith(b"HTTP/1.1 200")
        assert "1 page open, at http://127.0.0.1:" in tributary("status")
    assert [each["name"] for each in browser.get("look")["services"]] == ["converter", "throttler", "router", "gateway"]


def test_it_listens_at_an_address_that_comes_later(tmp_path: Path) -> None:
    (tmp_path / "console.toml").write_text('listen = ["192.168.77.1", "[fd00:77::1]:8480", "0.0.0.0:8481"]\n')
    command = (sys.executable, "-m", "console", "run", "--settings", str(tmp_path / "console.toml"))
    url = "http://192.168.77.1:8480/api/v1/who"
    with ready(*in_namespace(GATEWAY, *command, "--state-directory", str(tmp_path)), stderr=subprocess.DEVNULL):
        pages = json.loads(tributary("status", "console"))["pages"]
        assert pages == ["http://192.168.77.1:8480/", "http://[fd00:77::1]:8480/", "http://127.0.0.1:8481/"]
        run("ip", "-n", GATEWAY, "address", "add", "192.168.77.1/32", "dev", "lo")
        try:
            assert '"manages":false' in run("ip", "netns", "exec", GATEWAY, "curl", "-s", "--noproxy", "*", url)
        finally:
            run("ip", "-n", GATEWAY, "address", "del", "192.168.77.1/32", "dev", "lo")


def set_password(password: str) -> None:
    """As ``tributary console password`` does, by its socket."""
    with AT_GATEWAY.entered():
        CONSOLE.ask("password", password=password)


def test_a_daemon_that_never_answers_or_answers_nonsense_is_named(tmp_path: Path) -> None:
    over = Event()
    with throttler_stand_in(lambda _: over.wait()), console(tmp_path / "state") as (browser, child):
        assert any("the throttler does not answer" in note for note in browser.get("look")["notes"])
        assert child.stop(seconds=10) == 0
    over.set()
    for nonsense in (b"5", b'{"failure": "x", "code": 999}', b"{}", b"[" * 10_000):

        def answer(connection: socket.socket, nonsense: bytes = nonsense) -> None:
            connection.recv(65536)
            connection.sendall(nonsense)

        with throttler_stand_in(answer), console(tmp_path / "state") as (browser, _):
            assert browser.get("look")["notes"]


def test_a_killed_daemon_is_missed_and_found_again(tmp_path: Path) -> None:
    with console(tmp_path / "state") as (browser, _):
        assert any("no throttler runs" in note for note in browser.get("look")["notes"])
        with throttler("kernel", FREE) as daemon:
            eventually(lambda: browser.get("look")["links"])
            daemon.kill()
            eventually(lambda: browser.get("look")["links"] == [])
            browser.login()
            assert "no throttler runs" in browser.post("limit", 503, path="wired", rate="3mbit")["error"]
        with throttler("kernel", FREE):
            eventually(lambda: browser.get("look")["links"])


def test_a_killed_console_leaves_limits_and_the_journal(tmp_path: Path) -> None:
    with throttler("kernel", FREE):
        with console(tmp_path / "state") as (browser, child):
            browser.login()
            browser.post("limit", path="wired", rate="3mbit")
            # The one that listens is the child of ip(8) and bash(1), which have both become it.
            child.stop(signal.SIGKILL)
        assert limits()["wired"] == "3mbit"
        with console(tmp_path / "state") as (browser, _):
            (entry,) = browser.get("journal")["entries"]
            browser.login()
            browser.post("undo", entry=entry["id"])
        assert limits()["wired"] is None


def test_on_a_full_disk_the_page_and_its_limits_go_on_and_say_so(tmp_path: Path) -> None:
    with small_disk(tmp_path / "state", "1m") as state:
        with suppress(OSError):
            (state / "filler").write_bytes(bytes(2 << 20))
        with throttler("kernel", FREE), console(state) as (browser, _):
            eventually(lambda: any(note.startswith("history: ") for note in browser.get("look")["notes"]))
            browser.login()
            _, answer = browser.ask("POST", "/api/v1/limit", {"path": "wired", "rate": "3mbit"})
            assert answer["error"].startswith("it is done, but not in the journal: ")
            assert limits()["wired"] == "3mbit"
            (state / "filler").unlink()
            browser.post("limit", path="wired", rate=None)
            assert [entry["before"] for entry in browser.get("journal")["entries"]] == ["3mbit"]


def test_values_that_are_none_are_refused_and_said_to_be_wrong(browser: Browser) -> None:
    browser.login()
    for path in (
        f"history?seconds={'9' * 5000}",
        "sessions?limit=-1&offset=-1&client=%ff&sort=%00",
        "explain/x%00%2Fy",
    ):
        status, answer = browser.ask("GET", f"/api/v1/{path}")
        assert 400 <= status < 500 and answer["error"], path
    for entry in (1 << 63, "one", None, [1]):
        status, answer = browser.ask("POST", "/api/v1/undo", {"entry": entry})
        assert 400 <= status < 500 and answer["error"], entry


def remotely(port: int, *words: str, token: str = "") -> "subprocess.CompletedProcess[str]":
    """``tributary`` on another machine."""
    command = [sys.executable, "-m", "command", "--remote", f"127.0.0.1:{port}", *words]
    # A proxy of the environment would read the token.
    environment = os.environ | {"TRIBUTARY_TOKEN": token, "http_proxy": "http://127.0.0.1:9"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)


def names(documents: list[dict[str, str]]) -> list[str | None]:
    return [each.get("name", each.get("token")) for each in documents]


def test_another_machine_sees_what_this_one_does(browser: Browser) -> None:
    with connection():
        for kind in ("links", "sessions", "rules"):
            here = json.loads(tributary(kind, "--json"))
            there = json.loads(remotely(browser.port, kind, "--json").stdout)
            assert names(there[kind]) == names(here[kind]) != []
        assert "throttler" in remotely(browser.port, "status").stdout
        (session,) = browser.get("sessions")["sessions"]
        assert f"(session {session['token']})" in remotely(browser.port, "explain", session["token"]).stdout
    is_refused(browser.port, "limit wired 1mbit", 64, "--remote: not accepted with this command")
    is_refused(browser.port, "status throttler", 64, "throttler: not accepted with --remote")
    is_refused(browser.port, "explain 0", 64, "accepted: the token of a session")
    assert limits()["wired"] is None


def is_refused(port: int, words: str, code: int, line: str) -> None:
    done = remotely(port, *words.split())
    assert (done.returncode, line in done.stderr) == (code, True), done.stderr


def test_where_no_console_is_another_machine_says_so() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    with serving(server, lambda client: client.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")):
        is_refused(port, "status", 69, f"no console answers at http://127.0.0.1:{port}")
    is_refused(port, "status", 69, f"no console answers at http://127.0.0.1:{port}")


def test_a_token_reads_where_reading_is_closed_and_changes_nothing(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with throttler("kernel", FREE):
        with console(state, 'reading = "closed"') as (browser, _):
            assert browser.ask("GET", "/api/v1/look")[0] == 401
            done = remotely(browser.port, "links")
            assert (done.returncode, "TRIBUTARY_TOKEN" in done.stderr) == (77, True)
            first, secret = (tributary("console", "token", "grafana").strip() for _ in range(2))
            assert tributary("console", "tokens") == "grafana\n"
            assert secret not in (state / "tokens.json").read_text()
            bearer = {"Authorization": f"Bearer {secret}"}
            assert browser.ask("GET", "/api/v1/look", **bearer)[0] == 200
            assert browser.ask("GET", "/api/v1/look", Authorization=f"Bearer {first}")[0] == 401
            assert browser.ask("POST", "/api/v1/limit", {"path": "wired", "rate": "3mbit"}, **bearer)[0] == 401
        # It outlives a restart.
        with console(state, 'reading = "closed"') as (browser, _):
            assert "wired" in remotely(browser.port, "links", token=secret).stdout
            tributary("console", "token", "grafana", "--remove")
            assert remotely(browser.port, "links", token=secret).returncode == 77


def test_the_page_has_what_the_doctor_found(browser: Browser) -> None:
    assert browser.get("look")["examined"] is None
    with examined():
        found = eventually(lambda: browser.get("look")["examined"])
        assert (found["role"], {each["check"] for each in found["findings"]}) == ("gateway", {"MPTCP"})
        EXAMINED.write_text("{")
        assert any(str(EXAMINED) in note for note in eventually(lambda: browser.get("look")["notes"]))


def test_who_has_logged_in_has_the_doctor_fix_what_it_found(browser: Browser) -> None:
    with examined(subflows=0), listening(in_namespace(GATEWAY)):
        found = eventually(lambda: browser.get("look")["examined"])
        (wrong,) = [each for each in found["findings"] if each["state"] == "wrong"]
        assert wrong["fix_name"] == "mptcp"
        eventually(lambda: browser.get("look")["fixes"])
        assert "log in first" in browser.post("fix", 401, name="mptcp")["error"]
        browser.login()
        assert "accepted: mptcp" in browser.post("fix", 400, name="firewall")["error"]
        fixed = browser.post("fix", name="mptcp")
        assert (fixed["ran"], fixed["left"]) == ([{"command": wrong["fix"][0], "failure": None}], [])
        assert "subflows 8" in on(GATEWAY, "ip mptcp limits show")
        after = eventually(lambda: (now := browser.get("look")["examined"])["time"] > found["time"] and now)
        assert "mptcp" not in {each["fix_name"] for each in after["findings"]}
    (entry,) = browser.get("journal")["entries"]
    assert (entry["who"], entry["subject"], entry["key"]) == ("root", "check mptcp", "state")
    assert (entry["before"], entry["after"]) == ("wrong", "ok")
    assert "accepted: a change of" in browser.post("undo", 400, entry=entry["id"])["error"]
