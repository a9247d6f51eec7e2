"""Words that this project once had for itself do not come back: readers know the field's."""

import re
from pathlib import Path

import pytest

from tests.unit.test_docs import PAGES
from tributary.paths import ROOT

COMMON = {"anew": "again", "heeds?": "handles", "ours": "own", "said|told": "reported, logged", "whom": "which"}
FORMER: dict[str, dict[str, str]] = {
    "converter/proxy": {
        "[Aa]new": "again",
        "Accounts|OfListener": "ConnectionRegistry, ListenerMetrics",
        "Carrier|Outlet|Unsent": "ExchangeDriver, BufferedWriter, WriteBacklog",
        "[Dd]epartures?|[Ll]eaving|may_leave": "Offloader, OffloadAttempt, offload",
        "[Dd]ownstream": "upstream: the server's side",
        "Learned|Said": "SizeEstimator, SizeHint",
        "Spare|SpareDescriptors": "FdPermit, FdPool",
        "[Ss]tranger": "unknown client, client-not-allowed",
        "Ticket|may_hold": "ConnectionPermit, reserve",
        "[Ww]hom|heeds?": "the client, handles",
        "when_away": "fallback",
    },
    "converter/load": {"[Ss]helf": "corpus", "[Tt]ally": "stats", "Pace": "RateLimit"},
    "converter/offload": {
        "[Dd]eaf(en|ness)?": "drops data",
        "[Ff]reezes?|[Ff]rozen|[Tt]haw(s|ed)?": "checkpoint, restore",
        "[Tt]ransplant": "offload",
    },
    "doctor": COMMON | {"FINE": "OK", "mends?": "fix"},
    "gateway": COMMON
    | {
        "Tally|[Tt]allies": "TrafficTotals, totals",
        "align": "reconcile",
        "let in": "enrolled, accepted",
        "shut out": "revoked, removed",
        "surplus": "unexpected",
    },
    "handoff": COMMON
    | {
        "[Gg]uest|Host|Visit|Ticket": "ClientConnection, Acceptor, HandedConnection, FrontHandle",
        "Journey|Guide|Parting": "Transfer, RequestRouter, detach",
        "MOST_[A-Z_]+": "MAX_...",
    },
    "overlay": COMMON
    | {"Lost|Office|Handed": "SessionError, Leadership, RoutesFile", "MOST_[A-Z_]+": "MAX_...", "canary": "sanity"},
    "router": COMMON
    | {
        "CPE|cpe": "router",
        "Door|door": "kernel_client",
        "[Kk]eeper": "Reconciler",
        "[Ll]eg": "GatewayTunnels",
        "[Ss]cout": "FailbackMonitor",
        "Steps?|steps?": "operation",
        "gives? up|gave up|go back": "fail over, fail back",
        "nobody": "no one, none",
        "shunned": "suspect",
    },
    "squid": COMMON,
    "throttler": COMMON
    | {
        "[Hh]eld": "throttled",
        "Hold": "Assignment",
        "Ledger": "ClassTable",
        "Moment": "EvaluationContext",
        "Placed?": "ClassKey, HtbClass",
        "Verdict": "Decision",
        "in_force": "active",
        "set_live": "runtime",
        "trunk": "root class",
        "unheld": "not throttled",
    },
    "tributary": COMMON | {"Failure": "CommandError", "asker": "peer", "for_anybody": "unprivileged"},
}
"""By folder: a pattern for a former word, and the field's word."""
HOUSE_WORDS = re.compile(rf"\b({'|'.join(COMMON)}|nobody's|thaws?|yonder)\b", re.IGNORECASE)
CODE = re.compile(r"^( {4}|```.*?^```).*?$|`[^`]*`|\*\*`.*?`\*\*", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_no_word_that_only_this_house_uses(page: Path) -> None:
    assert HOUSE_WORDS.findall(CODE.sub("", page.read_text())) == []


@pytest.mark.parametrize("folder", FORMER)
def test_a_folder_speaks_as_the_field_does(folder: str) -> None:
    words = {re.compile(rf"\b({former})\b"): instead for former, instead in FORMER[folder].items()}
    files = [path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".rs", ".toml")]
    found = {
        f"{path.relative_to(ROOT)}: {match[0]}: {instead}"
        for path in files
        for word, instead in words.items()
        for match in word.finditer(path.read_text())
    }
    assert found == set()
