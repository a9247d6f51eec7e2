import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from tests.netns.console_world import Browser, console
from tests.netns.world import Child, eventually, needs, run

pytestmark = [pytest.mark.usefixtures("world"), needs("openssl")]
HELLO = b"\x16"
"""What a TLS handshake begins with."""


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[tuple[Browser, Child]]:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    run(*made, "-days", "2", "-subj", "/CN=localhost", "-keyout", str(key), "-out", str(certificate))
    settings = f'certificate = "{certificate}"\nkey = "{key}"\n'
    with console(tmp_path / "state", settings) as made_ready:
        yield made_ready


def answers(browser: Browser, certificate: Path | None = None) -> bool:
    """Whether it answers who trusts this certificate alone; without one, who trusts any."""
    context = ssl.create_default_context(cafile=certificate) if certificate else ssl._create_unverified_context()
    connection = HTTPSConnection("127.0.0.1", browser.port, timeout=20, context=context)
    try:
        connection.request("GET", "/api/v1/who")
        return connection.getresponse().status == 200
    finally:
        connection.close()


def open_from(port: int) -> Counter[str]:
    """The console's connections that are established, by the client's address (ss(8))."""
    lines = run("ss", "-Htn", "state", "established", "sport", "=", f":{port}").splitlines()
    return Counter(line.split()[3].rpartition(":")[0] for line in lines)


def test_a_flood_of_unfinished_handshakes_is_bounded_and_locks_nobody_out(secured: tuple[Browser, Child]) -> None:
    browser, child = secured
    before = len([*Path(f"/proc/{child.pid}/fd").iterdir()])
    with ExitStack() as stack:
        for number in range(1200):
            flood = stack.enter_context(Browser(browser.port, f"127.0.0.{5 + number // 400}").connect())
            flood.sendall(HELLO)
        assert answers(browser)
        assert len([*Path(f"/proc/{child.pid}/fd").iterdir()]) <= before + 512
        found = eventually(lambda: counted if max((counted := open_from(browser.port)).values()) <= 256 else None)
        assert found.total() <= 512
        assert all(answers(browser) for _ in range(20))
    assert answers(browser)


def test_who_never_finishes_a_handshake_is_disconnected(secured: tuple[Browser, Child]) -> None:
    browser, _ = secured
    with browser.connect() as silent:
        silent.sendall(HELLO)
        assert silent.recv(1) == b""


def test_its_own_certificate_is_the_same_after_a_restart(tmp_path: Path) -> None:
    certificate, seen = tmp_path / "certificate.pem", set()
    for _ in range(2):
        with console(tmp_path, "own_certificate = true\n") as (browser, _child):
            assert answers(browser, certificate)
            seen.add(certificate.read_text())
    assert len(seen) == 1
