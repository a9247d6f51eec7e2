"""Manual pages: formatted without a complaint, and telling what the pages of docs/ and the commands tell."""

import re
import shutil
import subprocess
from argparse import _SubParsersAction
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from command import cli as tributary
from console.settings import ConsoleSettings
from debs import checkout, content
from doctor.__main__ import main as doctor
from gateway import cli as gateway
from gateway.settings import GatewaySettings
from image.firstboot.__main__ import main as firstboot
from image.firstboot.page.__main__ import main as first_start
from image.upgrade.__main__ import main as upgrade
from router.settings import Multipath, Wan
from squid.settings import SquidSettings
from tests.unit.debs.sample import release
from throttler import cli
from tributary.paths import ROOT
from tributary.settings.probing import Probe
from tributary.wireguard.tunnels import Tunnels

Main = Callable[[Sequence[str]], int]
FILES = checkout.tracked()
PAGES = sorted(Path(path).name for path in FILES if path.startswith("debs/man/"))


def source(page: str) -> str:
    return (ROOT / "debs/man" / page).read_text()


def keys_in(page: str, section: str = "") -> set[str]:
    """What a page's tags name, '.It Ic one , two'; of one section, or of all."""
    text = source(page).partition(f".Sh {section}\n")[2].partition("\n.Sh ")[0] if section else source(page)
    return {key for line in re.findall(r"^\.It Ic (.*)$", text, re.MULTILINE) for key in line.split(" , ")}


def keys_in_tables(document: str, section: str) -> set[str]:
    """The first column of a section's tables, keys in backticks; `one.key`, `other` stands for one.key, one.other."""
    text = (ROOT / "docs" / document).read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = [re.findall(r"`([^`]+)`", row) for row in re.findall(r"^\| (`[^|]+`) \|", text, re.MULTILINE)]
    return {key if "." in key else f"{''.join(row[0].rpartition('.')[:2])}{key}" for row in rows for key in row}


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff")
@pytest.mark.parametrize("page", PAGES)
def test_groff_has_nothing_to_say(page: str) -> None:
    command = ["groff", "-mdoc", "-ww", "-rCHECKSTYLE=3", "-Tutf8", "-z"]
    formatted = subprocess.run(command, input=source(page), capture_output=True, text=True, check=False)
    assert (formatted.returncode, formatted.stderr) == (0, "")


def test_a_page_has_the_date_of_the_commit() -> None:
    made = content.manual(FILES, "tributary-squid.8", release())
    assert made.path == "usr/share/man/man8/tributary-squid.8.gz"
    assert subprocess.run(["gunzip"], input=made.content, capture_output=True, check=True).stdout.startswith(
        b".Dd November 21, 2026\n"
    )


def test_every_key_of_the_converter_is_told() -> None:
    assert keys_in_tables("converter-reference.md", "Configuration") == keys_in("tributary-converter.toml.5", "KEYS")


def test_every_key_of_a_policy_is_told() -> None:
    assert keys_in_tables("throttler-reference.md", "Policy") == keys_in("tributary-throttler.toml.5")


def test_every_setting_of_squid_is_told() -> None:
    assert keys_in("tributary-squid.8") == set(SquidSettings.model_fields)


def test_every_setting_of_the_home_router_is_told() -> None:
    tables = {
        **{f"mptcp.{key}": 0 for key in Multipath.model_fields},
        **{f"probe.{key}": 0 for key in Probe.model_fields},
        **{f"tunnels.{key}": 0 for key in Tunnels.model_fields},
    }
    assert keys_in("tributary-router.8") == {
        *Wan.model_fields,
        *tables,
        *("bypass", "enrolment", "lan", "lan_ipv6", "lan_prefix", "time_zone"),
    }


def test_every_setting_of_the_console_is_told() -> None:
    assert keys_in("tributary-console.8") == set(ConsoleSettings.model_fields)


def test_every_setting_of_a_gateway_and_every_command_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert keys_in("tributary-gateway.8") == set(GatewaySettings.model_fields)
    with pytest.raises(SystemExit):
        gateway.main(["--help"])
    listed = re.search(r"^ +COMMAND\n((?: {4,}.*\n)+)", capsys.readouterr().out, re.MULTILINE)
    assert listed is not None
    told = re.findall(r"^\.It Cm (\w+)$", source("tributary-gateway.8"), re.MULTILINE)
    assert set(re.findall(r"^ {4}(\w+)", listed[1], re.MULTILINE)) == set(told)


def test_every_command_of_tributary_is_told_and_completed() -> None:
    (commands,) = (each.choices for each in tributary.parser()._actions if isinstance(each, _SubParsersAction))
    assert list(commands) == re.findall(r"^\.It Cm (\w+)$", source("tributary.8"), re.MULTILINE)
    completed = re.search(r'choices="([a-z ]+)"', (ROOT / "debs/files/tributary.bash").read_text())
    assert completed is not None and completed[1].split() == list(commands)


def test_every_command_and_option_of_an_upgrade_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    def shown(*words: str) -> str:
        with pytest.raises(SystemExit):
            upgrade([*words, "--help"])
        return capsys.readouterr().out

    listed = re.search(r"^ +COMMAND\n((?: {4,}.*\n)+)", shown(), re.MULTILINE)
    assert listed is not None
    commands = re.findall(r"^ {4}(\w+)", listed[1], re.MULTILINE)
    assert commands == re.findall(r"^\.It Cm (\w+)$", source("tributary-upgrade.8"), re.MULTILINE)
    options = {each for name in commands for each in re.findall(r"^  (--[a-z-]+)", shown(name), re.MULTILINE)}
    told = re.findall(r"^\.It Fl (-[a-z-]+)", source("tributary-upgrade.8"), re.MULTILINE)
    assert options == {f"-{option}" for option in told}


@pytest.mark.parametrize(
    ("page", "main"),
    [("tributary-doctor", doctor), ("tributary-firstboot", firstboot), ("tributary-first-start", first_start)],
)
def test_every_option_is_told(
    page: str, main: Callable[[Sequence[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    options = set(re.findall(r"^  (?:-h, )?(--[a-z-]+)", capsys.readouterr().out, re.MULTILINE)) - {"--help"}
    assert options == {f"-{option}" for option in re.findall(r"^\.It Fl (-[a-z-]+)", source(f"{page}.8"), re.MULTILINE)}


@pytest.mark.parametrize("part", ["switch", "backend"])
def test_every_option_of_a_hand_offs_programs_is_told(part: str) -> None:
    declared = (ROOT / f"handoff/{part}/src/main.rs").read_text()
    options = re.findall(r'#\[arg\(long(?: = "([a-z-]+)")?.*\]\n +(\w+):', declared)
    told = re.findall(r"^\.It Fl -([a-z-]+)", source(f"tributary-{part}.8"), re.MULTILINE)
    assert [given or field.replace("_", "-") for given, field in options] == told


def test_every_command_of_the_throttler_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    listed = re.search(r"^ +COMMAND\n((?: {4,}.*\n)+)", capsys.readouterr().out, re.MULTILINE)
    assert listed is not None
    commands = set(re.findall(r"^ {4}(\w+)", listed[1], re.MULTILINE))
    assert commands <= set(re.findall(r"^\.It Cm (\w+)$", source("tributary-throttler.8"), re.MULTILINE))


def test_every_option_of_the_throttlers_daemon_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    options = set(re.findall(r"^  (--[a-z-]+)", capsys.readouterr().out, re.MULTILINE))
    told = set(re.findall(r"Fl (-[a-z-]+)", source("tributary-throttler.8")))
    assert {option.removeprefix("-") for option in options} <= told
