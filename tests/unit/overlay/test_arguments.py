"""What the commands refuse before they do anything; what they do runs on the real etcd, in tests/netns."""

from itertools import product
from pathlib import Path

import pytest

from overlay.__main__ import main
from tests.refusals import usage_error

ETCD = "--endpoints=https://192.0.2.9:2379"
NO_ADDRESSES = [
    *("x,", "https://etcd.example:2379", "etcd.example:2379", "192.0.2.9:2379", "192.0.2", "192.0.2.999"),
    *("[2001:db8::1]", "fe80::1%eth0", "münchen.example", "a b", "-a.example", "a..example"),
]
WRONG: list[tuple[list[str], str]] = [
    *((["simulate", "GRAPH", f"--peers={each}"], "a whole number from 4 to 1000") for each in ("3", "1001", "all")),
    *((["simulate", "GRAPH", f"--rounds={each}"], "a whole number from 1 to 60") for each in ("0", "61", "1.5", "")),
    (["simulate", "GRAPH", "--rounds=1,0"], "accepted: a whole number from 1 to 60"),
    (["map", "GRAPH", "A"], "accepted: no node or two"),
    (["map", "GRAPH", "A", "B", "C"], "accepted: no node or two"),
    (["explain", "a", "nowhere"], "accepted: an IP address"),
    (["explain", "a", "192.0.2.9", "--port", "0"], "accepted: a whole number from 1 to 65535"),
    (["explain", "a", "192.0.2.9", "--size", "100"], "accepted: a size with its unit"),
    (["serve", "--metrics", "9467"], "--metrics: '9467': accepted: an address and a port"),
    (["authorize", "root", ETCD], "root: accepted: a name that the authority does not use itself"),
    (["authorize", "london", "etcd", ETCD], "etcd: accepted: a name that the authority does not use itself"),
    (["authorize", "a/b", ETCD], "'a/b' is no name: accepted: 1 to 64 of"),
    (["authorize", "london", "--as", "king", ETCD], "choose from"),
    (["authorize", "london"], "--endpoints"),
    (["authorize", ETCD], "NAME"),
    (["revoke", "root", ETCD], "root: accepted: a name that the authority does not use itself"),
    (["revoke", "london"], "--endpoints"),
    *((["enrol", each], "accepted: ") for each in ("root", "etcd", "a/b")),
    (["enrol", "a", "--days", "0"], "accepted: "),
    (["enrol", "a", "--handoff-front", "--handoff-switch", "192.0.2.1"], "not allowed with"),
    *(
        (["enrol", "a", f"{option}={each}"], "accepted: IP addresses and host names: 192.0.2.1,etcd.example")
        for option, each in product(("--etcd", "--handoff-switch", "--handoff-back-end"), NO_ADDRESSES)
    ),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=lambda each: " ".join(each) if isinstance(each, list) else "")
def test_wrong_arguments_are_refused(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in usage_error(main, words, capsys)
    assert list(tmp_path.iterdir()) == []
