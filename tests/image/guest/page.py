"""The console's page, as a browser asks for it: has the doctor fix a setting of the kernel."""

import json
import time
from http.cookiejar import CookieJar
from typing import Any
from urllib.request import HTTPCookieProcessor, Request, build_opener

from network import run

KEY = "net.ipv4.tcp_notsent_lowat"


class Browser:
    """A visitor of the page, who keeps its cookies."""

    def __init__(self, page: str) -> None:
        self._page = page
        self._opener = build_opener(HTTPCookieProcessor(CookieJar()))

    def ask(self, call: str, **document: str) -> Any:
        """The answer to a call of the API, which is a change if there is a ``document``."""
        headers = {"Content-Type": "application/json", "Origin": self._page}
        data = json.dumps(document).encode() if document else None
        with self._opener.open(Request(f"{self._page}/api/v1/{call}", data, headers), timeout=120) as response:
            answer = response.read()
        return json.loads(answer) if answer else None


def fixed() -> dict[str, Any]:
    """Somebody changes a setting; the page says so, and its button sets it again."""
    right = run(f"sysctl --values {KEY}").strip()
    run(f"sysctl --write {KEY}=123456")
    run("systemctl start tributary-doctor.service")
    page, _, token = run("tributary console login").split()[0].partition("/#/login?token=")
    browser = Browser(page)
    browser.ask("login", token=token)
    wrong = _found(browser, True)
    answer = browser.ask("fix", name="settings")
    found = {"right": right, "wrong": wrong, "answer": answer, "now": run(f"sysctl --values {KEY}").strip()}
    left = _found(browser, False)
    failed = run("systemctl list-units --failed --plain --no-legend").splitlines()
    return {**found, "left": left, "failed": failed, "journal": browser.ask("journal")["entries"]}


def _found(browser: Browser, whether: bool) -> list[str]:
    """What the page says of the kernel's settings, once it says that something is wrong with them, or nothing."""
    messages: list[str] = []
    for _ in range(60):
        findings = (browser.ask("look")["examined"] or {"findings": []})["findings"]
        messages = [each["message"] for each in findings if each["fix_name"] == "settings"]
        if bool(messages) == whether:
            break
        time.sleep(1)
    return messages
