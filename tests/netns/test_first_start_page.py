"""The first-start page in a real browser (Debian's Chromium), as ``first-start --dry-run`` shows it at loopback."""

import re
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import ViewportSize, expect

from tests.netns.browser import ALL_SIZES, check_view, new_page
from tests.netns.world import needs

pytestmark = needs("chromium")


@pytest.fixture(scope="module")
def shown() -> Iterator[tuple[str, str]]:
    """The page's address, and the code."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "image.firstboot.page", "--dry-run", "--at", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        found = re.match(r"(\S+) Code: (\S+)\.", process.stdout.readline())
        assert found
        yield found[1], found[2]
        process.terminate()


@ALL_SIZES
def test_it_is_usable_on_every_screen(
    chromium: Chromium, shown: tuple[str, str], size: ViewportSize, dark: bool
) -> None:
    address, code = shown
    page = new_page(chromium, size, dark)
    page.goto(address)
    check_view(page, size)
    page.get_by_label("Code").fill(code)
    page.get_by_label("my devices are here").first.check()
    page.get_by_role("button", name="Look at it").click()
    expect(page.get_by_role("alert")).to_contain_text("This is not accepted")
    check_view(page, size)
