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
from tributary.settings.metrics import Metrics
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


def tagged(page: str, kind: str) -> list[str]:
    """What a page of section 8 tags as commands, '.It Cm one', or as options, '.It Fl -one', in their order."""
    found = re.findall(rf"^\.It {kind} (-?[a-z-]+)", source(f"{page}.8"), re.MULTILINE)
    return [f"-{each}" for each in found] if kind == "Fl" else found


def shown(capsys: pytest.CaptureFixture[str], main: Main, *words: str) -> str:
    """A command's help."""
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    return capsys.readouterr().out


def commands(help_: str) -> list[str]:
    """Those that a command's help lists."""
    listed = re.search(r"^ +COMMAND\n((?: {4,}.*\n)+)", help_, re.MULTILINE)
    assert listed is not None
    return re.findall(r"^ {4}(\w+)", listed[1], re.MULTILINE)


def options(help_: str) -> set[str]:
    """The same of options, but for --help."""
    return set(re.findall(r"^  (?:-h, )?(--[a-z-]+)", help_, re.MULTILINE)) - {"--help"}


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
    assert content.dated(FILES["debs/man/tributary-squid.8"], release()).startswith(b".Dd November 21, 2026\n")


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
        **{f"metrics.{key}": 0 for key in Metrics.model_fields},
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
    assert set(commands(shown(capsys, gateway.main))) == set(tagged("tributary-gateway", "Cm"))


def test_every_command_of_tributary_is_told_and_completed() -> None:
    (found,) = (each.choices for each in tributary.parser()._actions if isinstance(each, _SubParsersAction))
    assert list(found) == tagged("tributary", "Cm")
    completed = re.search(r'choices="([a-z ]+)"', (ROOT / "debs/files/tributary.bash").read_text())
    assert completed is not None and completed[1].split() == list(found)


def test_every_command_and_option_of_an_upgrade_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    found = commands(shown(capsys, upgrade))
    assert found == tagged("tributary-upgrade", "Cm")
    assert {option for name in found for option in options(shown(capsys, upgrade, name))} == set(
        tagged("tributary-upgrade", "Fl")
    )


@pytest.mark.parametrize(
    ("page", "main"),
    [("tributary-doctor", doctor), ("tributary-firstboot", firstboot), ("tributary-first-start", first_start)],
)
def test_every_option_is_told(page: str, main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    assert options(shown(capsys, main)) == set(tagged(page, "Fl"))


@pytest.mark.parametrize("part", ["switch", "backend"])
def test_every_option_of_a_hand_offs_programs_is_told(part: str) -> None:
    program = (ROOT / f"handoff/{part}/src/main.rs").read_text()
    declared = re.findall(r'#\[arg\(long(?: = "([a-z-]+)")?.*\]\n +(\w+):', program)
    told = [given or field.replace("_", "-") for given, field in declared]
    assert [f"--{option}" for option in told] == tagged(f"tributary-{part}", "Fl")


def test_every_command_and_option_of_the_overlays_program_is_told() -> None:
    program = (ROOT / "overlay/control/src/arguments.rs").read_text()
    declared = re.findall(r'#\[arg\(\s*long(?: = "([a-z-]+)")?.*?\)\]\s+(?:pub )?(\w+):', program, re.DOTALL)
    assert {f"-{given or field.replace('_', '-')}" for given, field in declared} == {
        option.removeprefix("-") for option in tagged("tributary-overlay", "Fl")
    }
    commands_ = re.findall(r"^    (\w+)\(\w+\),$", program, re.MULTILINE)
    assert {name.lower() for name in commands_} == set(tagged("tributary-overlay", "Cm"))


def test_every_command_of_the_throttler_and_every_option_of_its_daemon_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert set(commands(shown(capsys, cli.main))) <= set(tagged("tributary-throttler", "Cm"))
    told = re.findall(r"Fl (-[a-z-]+)", source("tributary-throttler.8"))
    assert options(shown(capsys, cli.main, "run")) <= {f"-{option}" for option in told}
