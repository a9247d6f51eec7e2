"""The operations of the API's description, but for a stream that is open, fuzzed by schemathesis: once beside each
daemon that the API asks.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.netns.console_world import FREE, Browser, console
from tests.netns.gateway_world import World, needs_tools
from tests.netns.lan_world import Home
from tests.netns.test_gateway_service import served
from tests.netns.throttler_world import throttler

_SETTINGS = Path(__file__).parent / "schemathesis.toml"
_GATEWAYS, _ROUTERS = "/(routers|enrol|revoke)$", "/(link|bypass)$"


def fuzz(browser: Browser, folder: Path, *options: str) -> None:
    """Fuzz the operations that ``options`` choose, as whoever the browser is."""
    page = f"http://127.0.0.1:{browser.port}"
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(_SETTINGS), "run", *options]
    command += ["--header", f"Origin: {page}", *(["--header", f"Cookie: {browser.cookie}"] if browser.cookie else [])]
    environment = os.environ | {"no_proxy": "*", "HYPOTHESIS_STORAGE_DIRECTORY": str(folder)}
    description = f"{page}/api/v1/openapi.json"
    done = subprocess.run(
        [*command, description], cwd=folder, env=environment, capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("world")
def test_the_api_does_as_it_says_beside_a_throttler(tmp_path: Path) -> None:
    with throttler("kernel", FREE), console(tmp_path) as (browser, _):
        browser.login()
        # A stream has no end, and a logout would end the login.
        fuzz(browser, tmp_path, "--exclude-path-regex", f"{_GATEWAYS}|{_ROUTERS}|/(stream|logout)$")
        assert browser.get("who")["manages"]


@needs_tools
def test_the_api_does_as_it_says_beside_a_gateway(gateway: World, tmp_path: Path) -> None:
    with served(gateway), console(tmp_path, namespace=gateway.gate.namespace) as (browser, _):
        browser.login()
        fuzz(browser, tmp_path, "--include-path-regex", _GATEWAYS)
        assert browser.get("journal")["entries"]


def test_the_api_does_as_it_says_beside_a_home_router(home: Home, tmp_path: Path) -> None:
    with home.daemon(home.text), console(tmp_path, namespace=home.router) as (browser, _):
        browser.login()
        fuzz(browser, tmp_path, "--include-path-regex", _ROUTERS)


@pytest.mark.usefixtures("world")
def test_the_api_refuses_who_has_not_logged_in(tmp_path: Path) -> None:
    with console(tmp_path, 'reading = "closed"') as (browser, _):
        fuzz(browser, tmp_path, "--phases", "coverage", "--exclude-path-regex", "/(login|who)$")
        assert browser.get("who")["manages"] is False
