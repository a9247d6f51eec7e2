"""The command ``tributary`` beside a running throttler."""

import json
import math
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.netns.links_world import AT_GATEWAY, GATEWAY, connection
from tests.netns.throttler_world import TEXT, WIRED_SLOW, ask, throttled, throttler, tributary
from tests.netns.world import Child, in_namespace, process
from tributary.api.places import THROTTLER
from tributary.paths import ROOT
from tributary.settings.errors import CommandError, Exit
from tributary.settings.files import drop_ins

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("world")]

PAGE = ROOT / "docs" / "command.md"
EXAMPLE = re.compile(r"^    \$ tributary (.*)\n((?:(?:    (?!\$).*)?\n)*?)(?=    \$|\S|\Z)", re.MULTILINE)
"""A command in the page, and what it printed."""


def listed(name: str, *words: str) -> list[dict[str, Any]]:
    document: dict[str, list[dict[str, Any]]] = json.loads(tributary(*words, "--json"))
    return document[name]


def rules() -> list[str]:
    return [rule["name"] for rule in listed("rules", "rules")]


def limits() -> dict[str, str | None]:
    return {link["name"]: link["limit"] for link in listed("links", "links")}


@contextmanager
def running(*words: str) -> Iterator[Child]:
    """A command that goes on."""
    with process(*in_namespace(GATEWAY, sys.executable, "-m", "command", *words)) as child:
        yield child


def test_sessions_links_and_an_explanation_of_a_download() -> None:
    with throttled("kernel"):
        (session,) = listed("sessions", "sessions")
        assert session["throttled"] == 1 and len(session["subflows"]) == 2
        for fits, words in (
            (1, "--client 10.0.1.0/24 --path wired --throttled"),
            (1, f"--client {session['client']} --sort=-sent"),
            (0, "--client 192.0.2.0/24"),
            (0, "--path nowhere"),
        ):
            found = listed("sessions", "sessions", *words.split())
            assert [each["token"] for each in found] == [session["token"]] * fits
        assert "no session has this token" in tributary("sessions", "0", code=Exit.USAGE)
        subflows = listed("subflows", "sessions", session["token"])
        assert sorted(subflow["path"] for subflow in subflows) == ["wired", "wireless"]
        assert {link["name"]: link["throttled"] for link in listed("links", "links")} == {"wired": 1, "wireless": 0}
        assert "wired-slow: applies" in tributary("explain", session["token"])
        (rule,) = listed("rules", "rules")
        assert (rule["name"], rule["subflows"], rule["state"]) == ("wired-slow", 1, "active")
        (entry,) = listed("classes", "classes")
        assert (entry["rule"], entry["rate"], entry["subflows"]) == ("wired-slow", rule["rate"], 1)
        services = {each["name"]: each["running"] for each in listed("services", "status")}
        assert services["throttler"] and not services["router"]
        assert session["token"] in tributary("sessions") and "throttled" in tributary("links")


def test_a_limit_is_set_shown_and_lifted() -> None:
    with throttled("kernel"):
        (limited,) = listed("links", "limit", "wireless", "3mbit")
        assert (limited["limit"], limited["throttled"]) == ("3mbit", 1)
        (free,) = listed("links", "limit", "wireless", "none")
        assert (free["limit"], free["throttled"]) == (None, 0)
        assert "accepted: one of the file's paths" in tributary("limit", "nowhere", "3mbit", code=Exit.USAGE)
        assert "accepted: a rate" in tributary("limit", "wired", "3", code=Exit.USAGE)


def test_a_limit_that_is_saved_outlives_a_reload_until_it_is_lifted(policy: Path) -> None:
    with throttled("kernel", policy):
        assert tributary("limit", "wireless", "3mbit", "--save", "--dry-run").startswith("# wireless would get at most")
        tributary("limit", "wired", "4mbit")
        tributary("limit", "wireless", "3mbit", "--save")
        assert [each.name for each in drop_ins(policy).iterdir()] == ["limit-wireless.toml"]
        ask("reload")
        assert limits() == {"wired": None, "wireless": "3mbit"}
        tributary("limit", "wireless", "none")
        ask("reload")
        assert set(limits().values()) == {None}


@pytest.mark.parametrize(("said", "code", "kept"), [("\n", 0, True), ("", Exit.WRONG_RESULT, False)])
def test_a_policy_on_trial_is_kept_if_it_is_confirmed(said: str, code: int, kept: bool, policy: Path) -> None:
    trial = policy.with_name("throttler.toml")
    trial.write_text(TEXT.replace("wired-slow", "another"))
    with throttler("kernel", policy):
        with running("try", str(trial)) as trying:
            assert "Enter keeps it" in trying.line()
            assert rules() == ["another"]
            trying.communicate(said, 20)
            assert trying.returncode == code
        assert rules() == ["another" if kept else "wired-slow"]
    assert (policy.read_text() == trial.read_text()) is kept


def test_a_wrong_policy_is_not_tried(tmp_path: Path) -> None:
    wrong = tmp_path / "throttler.toml"
    wrong.write_text(TEXT.replace("rate", "ratte"))
    with throttler("kernel"):
        assert f"{wrong}: rules[0].ratte" in tributary("try", str(wrong), code=Exit.USAGE)
        assert rules() == ["wired-slow"]
        own = tributary("try", str(WIRED_SLOW), "--program", "throttler", code=Exit.USAGE)
        assert "accepted: another file" in own
        with AT_GATEWAY.entered(), pytest.raises(CommandError, match="seconds"):
            THROTTLER.ask("try", settings=TEXT.replace("wired-slow", "another"), name="new", seconds=math.inf)
        assert rules() == ["wired-slow"]
    wrong.rename(tmp_path / "new.toml")
    assert "accepted: throttler or router" in tributary("try", str(tmp_path / "new.toml"), code=Exit.USAGE)


def test_changes_are_printed_as_they_come() -> None:
    with throttler("kernel"), running("monitor", "--json") as watching:
        assert watching.stdout
        lines = map(json.loads, watching.stdout)
        assert next(lines)["change"] == "new"
        with connection():
            come = next(each for each in lines if each["kind"] == "session")
        gone = next(each for each in lines if (each["name"], each["change"]) == (come["name"], "gone"))
        assert gone["text"] == f"session {come['name']} is gone"


def test_rates_follow_a_download_while_it_is_watched() -> None:
    with throttled("kernel") as (_, client):
        with running("sessions", "--watch", "--json") as watching:
            assert watching.stdout
            looks = map(json.loads, watching.stdout)
            assert next(looks)["sessions"][0]["sent_rate"] is None
            client.transfer(100_000)
            assert any(next(looks)["sessions"][0]["sent_rate"] > 0 for _ in range(5))
        assert sum(link["sent"] for link in listed("links", "links")) > 100_000


def test_the_page_shows_what_is_printed() -> None:
    """REMAKE_GOLDEN=1 writes it anew."""
    with throttled("kernel") as (_, client):
        client.transfer(2_000_000)
        page = PAGE.read_text()
        made = EXAMPLE.sub(lambda example: f"    $ tributary {example[1]}\n{printed(example[1])}\n", page)
    if "REMAKE_GOLDEN" in os.environ:
        PAGE.write_text(made.rstrip("\n") + "\n")
    assert masked(made) == masked(page)


def printed(words: str) -> str:
    """What the command prints on a policy that is where a gateway's is, indented."""
    if words == "monitor":
        with running(words) as watching:
            assert watching.stdout
            text = "".join(islice(watching.stdout, 6))
    else:
        (session,) = listed("sessions", "sessions")
        text = tributary(*words.replace("TOKEN", session["token"]).split())
    text = text.replace(str(WIRED_SLOW), "/etc/tributary/throttler.toml")
    return "".join(f"    {line}".rstrip() + "\n" for line in text.splitlines())


def masked(page: str) -> str:
    """Without what differs from run to run: tokens, figures and their units, and the room that they take."""
    figures = re.sub(r"\d+(?:[.,]\d+)*", "0", re.sub(r"\b[0-9a-f]{8}\b|TOKEN", "token", page))
    return re.sub(r"\s+", " ", re.sub(r"0 [kMG]?(B|bit/s)", r"0 \1", figures))


def test_without_anything_that_runs_it_says_what_does_not() -> None:
    assert "no throttler runs" in tributary("sessions", code=Exit.UNAVAILABLE)
    assert all(not each["running"] for each in listed("services", "status"))
    assert tributary("statsu", code=Exit.USAGE).endswith("(did you mean status?) (see tributary --help)\n")
