"""A console beside the throttler's world, whose page is served outside of it."""

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.testbed.node import Node
from tests.netns.links_world import AT_GATEWAY, GATEWAY
from tests.netns.throttler_world import PATHS, tributary
from tests.netns.world import Child, in_namespace, on, ready, run, serving
from tributary.api.places import CONSOLE, EXAMINED, THROTTLER
from tributary.daemons.state_file import write_atomic

FREE = PATHS + '[[rules]]\nname = "free"\npath = "wired"\n'
"""A policy that throttles nothing."""


@dataclass
class Browser:
    """Who asks, from one address, with the cookies that it got."""

    port: int
    address: str = "127.0.0.1"
    cookie: str = ""
    namespace: str = GATEWAY
    """Where the console is."""
    headers: Mapping[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20, source_address=(self.address, 0))
        host = f"127.0.0.1:{self.port}"
        given = {"Host": host, "Cookie": self.cookie, **self.headers}
        if method == "POST":
            given |= {"Origin": f"http://{host}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), {**given, **headers})
            answer = connection.getresponse()
            if answer.headers["Set-Cookie"]:
                self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
            text = answer.read()
            return answer.status, json.loads(text) if text.startswith(b"{") else text
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 20, (self.address, 0))

    def stream(self) -> socket.socket:
        """A connection by which a look each second was asked for."""
        page = self.connect()
        page.sendall(f"GET /api/v1/stream HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode())
        return page

    def get(self, path: str) -> Any:
        status, answer = self.ask("GET", f"/api/v1/{path}")
        assert status == 200, answer
        return answer

    def post(self, call: str, status: int = 200, /, **members: object) -> Any:
        found, answer = self.ask("POST", f"/api/v1/{call}", members)
        assert found == status, answer
        return answer

    def login(self) -> None:
        self.post("login", 204, token=token(self.namespace))


def login_page() -> str:
    """The address that ``tributary console login`` prints."""
    return tributary("console", "login").strip()


def token(namespace: str) -> str:
    """One of those, without a program that starts for it."""
    with Node(namespace, Path()).entered():
        return str(CONSOLE.ask("login", name="root")["pages"][0]).partition("token=")[2]


@contextmanager
def console(state: Path, settings: str = "", namespace: str = GATEWAY) -> Iterator[tuple[Browser, Child]]:
    state.mkdir(exist_ok=True)
    file = state / "console.toml"
    file.write_text(settings)
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        own = listener.fileno()
        line = f'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@" 3<&{own}'
        command = (sys.executable, "-m", "console", "run", "--settings", str(file), "--state-directory", str(state))
        wrapped = in_namespace(namespace, "bash", "-c", line, "bash", *command)
        with ready(*wrapped, stderr=subprocess.DEVNULL, inherits=[own]) as child:
            yield Browser(listener.getsockname()[1], namespace=namespace), child


@contextmanager
def throttler_stand_in(handler: Callable[[socket.socket], object]) -> Iterator[None]:
    """``handler`` is called for each connection to the throttler's socket."""
    with AT_GATEWAY.entered():
        path = THROTTLER.path
    path.parent.mkdir(exist_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(64)
    try:
        with serving(listener, handler):
            yield
    finally:
        path.unlink()


@contextmanager
def found(**finding: object) -> Iterator[None]:
    """The doctor's record has this finding, wrong unless it says otherwise, and one that is fine."""
    fine = {"check": "MPTCP", "state": "ok", "message": "it is on", "fix": []}
    findings = [{**each, "advice": ""} for each in (fine, {"state": "wrong", **finding})]
    write_atomic(EXAMINED, json.dumps({"time": time.time(), "role": "gateway", "findings": findings}).encode(), 0o644)
    try:
        yield
    finally:
        EXAMINED.unlink(missing_ok=True)


@contextmanager
def examined(subflows: int = 8) -> Iterator[None]:
    """The gateway lets no more subflows join, and the doctor has looked at that."""
    on(GATEWAY, f"ip mptcp limits set subflows {subflows}")
    EXAMINED.parent.mkdir(exist_ok=True)
    command = (sys.executable, "-m", "doctor", "--only", "mptcp", "--record", str(EXAMINED))
    run(*in_namespace(GATEWAY, *command), check=False)
    try:
        yield
    finally:
        on(GATEWAY, "ip mptcp limits set subflows 8")
        EXAMINED.unlink(missing_ok=True)
