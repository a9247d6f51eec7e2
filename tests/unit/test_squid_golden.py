"""What the templates make of settings: of the golden gateway.toml gateway.conf and gateway.nft, and of each other
NAME.toml what differs from them, in NAME.diff.

To make them anew after a wanted change: REMAKE_GOLDEN=1 scripts/python -m pytest tests/unit/test_squid_golden.py
"""

import ipaddress
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import squid
from squid import process, render
from squid.settings import SquidSettings
from tests import golden
from tributary.settings.files import load

GOLDEN = Path(squid.__file__).parent / "golden"
CASES = sorted(path.stem for path in GOLDEN.glob("*.toml"))
OWN = [ipaddress.ip_address(text) for text in ("127.0.0.1", "10.0.0.1", "203.0.113.1", "::1", "fd00::1", "2001:db8::1")]


def conf(name: str) -> str:
    return render.squid_conf(load(GOLDEN / f"{name}.toml", SquidSettings), OWN)


def guard(name: str) -> str:
    made = render.guard(load(GOLDEN / f"{name}.toml", SquidSettings))
    return made.replace("::ffff:0.0.0.0/96", "::ffff:0:0/96")  # the same, as Python writes it from 3.13 on


@pytest.mark.parametrize("name", CASES)
def test_render_is_the_golden_one(name: str) -> None:
    if name == "gateway":
        golden.compare(GOLDEN / "gateway.conf", conf(name))
        golden.compare(GOLDEN / "gateway.nft", guard(name))
    else:
        changed = (golden.differences(made("gateway"), made(name)) for made in (conf, guard))
        golden.compare(GOLDEN / f"{name}.diff", "".join(changed))


@pytest.mark.skipif(not shutil.which("squid"), reason="needs squid")
@pytest.mark.parametrize("name", CASES)
def test_squid_takes_the_configuration(name: str) -> None:
    process.check_config(conf(name))


@pytest.mark.skipif(not shutil.which("squid"), reason="needs squid")
@pytest.mark.parametrize("name", CASES)
def test_squid_finds_no_fault_but_the_missing_via(name: str, tmp_path: Path) -> None:
    (tmp_path / "squid.conf").write_text(conf(name))
    command = ["squid", "-k", "parse", "-f", str(tmp_path / "squid.conf")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    complaints = [line for line in said.splitlines() if "WARNING" in line or "ERROR" in line or "FATAL" in line]
    assert all("HTTP requires the use of Via" in line for line in complaints), complaints


@pytest.mark.skipif(not shutil.which("nft") or os.geteuid() != 0, reason="needs nft and root")
@pytest.mark.parametrize("name", CASES)
def test_nft_takes_the_guard(name: str) -> None:
    subprocess.run(["nft", "--check", "--file", "-"], input=guard(name), text=True, check=True)


def test_at_the_port_for_counters_there_is_nothing_else_and_they_are_nowhere_else() -> None:
    lines = conf("counters").splitlines()
    assert [line for line in lines if "name=counters" in line] == ["http_port 127.0.0.1:3127 name=counters"]
    rules = [line for line in lines if line.startswith("http_access")]
    at_the_port = [rule for rule in rules if "at_counters" in rule]
    assert (
        at_the_port
        == rules[:2]
        == ["http_access allow at_counters counter_pages", "http_access deny at_counters why_internal"]
    )
    # The first line of cachemgr_passwd that has a page's name counts (CacheManager::PasswdGet()).
    passwords = [line for line in lines if line.startswith("cachemgr_passwd")]
    assert passwords == ["cachemgr_passwd none counters info service_times", "cachemgr_passwd disable all"]
    for name in set(CASES) - {"counters"}:
        text = conf(name)
        assert "at_counters" not in text and "cachemgr_passwd none" not in text


def test_every_golden_configuration_refuses_before_it_allows() -> None:
    for name in CASES:
        rules = [line for line in conf(name).splitlines() if line.startswith("http_access")]
        rules = [rule for rule in rules if "at_counters" not in rule]
        assert rules[0] == "http_access deny !clients why_client"
        assert rules[-1] == "http_access allow all"
        assert all(rule.startswith("http_access deny ") for rule in rules[:-1])
