"""Manual pages: formatted without a complaint, and telling what the pages of docs/ and the commands tell."""

import gzip
import re
import shutil
import subprocess
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterable
from pathlib import Path

import pytest

from command import cli as tributary
from console.settings import ConsoleSettings
from debs import __main__ as build_deb
from debs import checkout
from debs.manual import manual
from doctor import __main__ as doctor
from gateway import cli as gateway
from gateway.settings import GatewaySettings
from image.firstboot import __main__ as firstboot
from image.firstboot.page import __main__ as first_start
from image.upgrade import __main__ as upgrade
from router.settings import Multipath, RouterSettings, Wan
from squid.settings import SquidSettings
from tests.commands.test_help import Program, walk
from tests.unit.debs.test_contents import PACKAGES
from throttler import cli
from tributary.paths import ROOT
from tributary.settings.files import Settings
from tributary.settings.metrics import Metrics
from tributary.settings.probing import Probe
from tributary.wireguard.tunnels import Tunnels

PAGES = sorted(Path(path).stem for path in checkout.tracked() if path.startswith("debs/man/"))
DATE = "November 21, 2026"


def source(page: str) -> str:
    return (ROOT / f"debs/man/{page}.md").read_text()


def tags(page: str, kind: str, section: str) -> list[str]:
    """What items of a page begin with, of this kind and in their order; of one section, or of all."""
    text = source(page).partition(f"\n## {section}\n")[2].partition("\n## ")[0] if section else source(page)
    heads = re.findall(r"^ *- (.+?)(?::\s|$)", text, re.MULTILINE)
    words = [code.split()[0] for head in heads for code in re.findall(r"`([^`]+)`", head)]
    return [word for word in words if re.fullmatch(kind, word)]


def commands_in(page: str) -> list[str]:
    return tags(page, "[a-z]+", "Description")


def options_in(page: str) -> list[str]:
    return tags(page, "--[a-z-]+", "Description")


def told(program: ArgumentParser) -> tuple[list[str], set[str]]:
    """A program's commands, and the options of it and of them."""
    found = list(walk(program))
    actions = [action for _, each in found for action in each._actions if action.dest != "help"]
    options = {option for action in actions for option in action.option_strings if option.startswith("--")}
    return [words[0] for words, _ in found if words], options


def keys_in_tables(document: str, section: str) -> set[str]:
    """The first column of a section's tables, keys in backticks; `one.key`, `other` stands for one.key, one.other."""
    text = (ROOT / "docs" / document).read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = [re.findall(r"`([^`]+)`", row) for row in re.findall(r"^\| (`[^|]+`) \|", text, re.MULTILINE)]
    return {key if "." in key else f"{''.join(row[0].rpartition('.')[:2])}{key}" for row in rows for key in row}


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff")
@pytest.mark.parametrize("page", PAGES)
def test_groff_has_nothing_to_say(page: str) -> None:
    command = ["groff", "-man", "-ww", "-rCHECKSTYLE=3", "-Tutf8", "-z"]
    formatted = subprocess.run(command, input=manual(source(page), DATE), capture_output=True, text=True, check=False)
    assert (formatted.returncode, formatted.stderr) == (0, "")


def test_a_page_is_set_as_its_markdown_says() -> None:
    page = """\
# name(8): does what it does

## Exit status

By `-f 'x'`, *file*
and ed(1):

- `--one` *a*, `two`: It is.
  - `3`: It *is*: yes.
- last: \\*
  'quoted'

text

    .code \\

### Way out
"""
    assert (
        manual(page, DATE)
        == f"""\
.TH NAME 8 "{DATE}" Tributary
.SH NAME
name \\- does what it does
.SH EXIT STATUS
.PP
By \\fB\\-f \\(aqx\\(aq\\fR, \\fIfile\\fR
and \\fBed\\fR(1):
.TP
\\fB\\-\\-one\\fR \\fIa\\fR, \\fBtwo\\fR
It is.
.RS
.TP
\\fB3\\fR
It \\fIis\\fR: yes.
.RE
.TP
last
*
\\&'quoted'
.PP
text
.PP
.RS 4
.nf
\\&.code \\e
.fi
.RE
.SS Way out
"""
    )


def test_a_page_has_the_date_of_the_commit() -> None:
    pages = {file.path: file.content for file in PACKAGES["tributary-squid"].files}
    page = gzip.decompress(pages["usr/share/man/man8/tributary-squid.8.gz"]).decode()
    assert page.startswith(f'.TH TRIBUTARY-SQUID 8 "{DATE}" Tributary\n')


OF_ROUTER: dict[str, type[Settings]] = {"mptcp": Multipath, "probe": Probe, "tunnels": Tunnels, "metrics": Metrics}
"""Its tables."""


@pytest.mark.parametrize(
    ("page", "section", "keys"),
    [
        ("tributary-converter.toml.5", "Keys", keys_in_tables("converter-reference.md", "Configuration")),
        ("tributary-throttler.toml.5", "", keys_in_tables("throttler-reference.md", "Policy")),
        ("tributary-squid.8", "Settings", SquidSettings.model_fields),
        ("tributary-console.8", "Settings", ConsoleSettings.model_fields),
        ("tributary-gateway.8", "Settings", GatewaySettings.model_fields),
        (
            *("tributary-router.8", "Settings"),
            {
                *(f"{name}.{key}" for name, table in OF_ROUTER.items() for key in table.model_fields),
                *Wan.model_fields,
                *(RouterSettings.model_fields.keys() - {"wan", *OF_ROUTER}),
            },
        ),
    ],
)
def test_every_setting_is_told(page: str, section: str, keys: Iterable[str]) -> None:
    assert set(tags(page, "[a-z].*", section)) == set(keys)


def test_the_help_of_build_deb_names_every_package() -> None:
    assert re.findall(r"^  (tributary-[a-z]+) ", build_deb.DESCRIPTION, re.MULTILINE) == list(PACKAGES)


def test_every_command_and_option_of_programs_is_told() -> None:
    assert set(told(gateway.parser())[0]) == set(commands_in("tributary-gateway.8"))
    (found,) = (each.choices for each in tributary.parser()._actions if isinstance(each, _SubParsersAction))
    assert list(found) == commands_in("tributary.8")
    completed = re.search(r'choices="([a-z ]+)"', (ROOT / "debs/files/tributary.bash").read_text())
    assert completed is not None and completed[1].split() == list(found)
    assert told(upgrade.parser()) == (commands_in("tributary-upgrade.8"), set(options_in("tributary-upgrade.8")))
    assert set(told(cli.parser())[0]) <= set(commands_in("tributary-throttler.8"))
    (daemon,) = (each for words, each in walk(cli.parser()) if words == ("run",))
    assert told(daemon)[1] <= set(options_in("tributary-throttler.8"))


@pytest.mark.parametrize(
    ("page", "program"),
    [("tributary-doctor", doctor), ("tributary-firstboot", firstboot), ("tributary-first-start", first_start)],
)
def test_every_option_is_told(page: str, program: Program) -> None:
    assert told(program.parser())[1] == set(options_in(f"{page}.8"))


@pytest.mark.parametrize("part", ["switch", "backend"])
def test_every_option_of_a_hand_offs_programs_is_told(part: str) -> None:
    program = (ROOT / f"handoff/{part}/src/main.rs").read_text()
    declared = re.findall(r'#\[arg\(long(?: = "([a-z-]+)")?.*\]\n +(\w+):', program)
    told = [given or field.replace("_", "-") for given, field in declared]
    assert [f"--{option}" for option in told] == options_in(f"tributary-{part}.8")


def test_every_command_and_option_of_the_overlays_program_is_told() -> None:
    program = (ROOT / "overlay/control/src/arguments.rs").read_text()
    declared = re.findall(r'#\[arg\(\s*long(?: = "([a-z-]+)")?.*?\)\]\s+(?:pub )?(\w+):', program, re.DOTALL)
    assert {f"--{given or field.replace('_', '-')}" for given, field in declared} == set(
        options_in("tributary-overlay.8")
    )
    commands_ = re.findall(r"^    (\w+)\(\w+\),$", program, re.MULTILINE)
    assert {name.lower() for name in commands_} == set(commands_in("tributary-overlay.8"))


def test_the_throttlers_service_takes_further_options_as_its_page_says() -> None:
    (options,) = re.findall(r'^    Environment="OPTIONS=(.+)"$', source("tributary-throttler.8"), re.MULTILINE)
    unit = (ROOT / "throttler/systemd/tributary-throttler.service").read_text()
    (words,) = re.findall(r"^ExecStart=\S+ (.+) \$OPTIONS$", unit, re.MULTILINE)
    assert str(cli.parser().parse_args([*words.split(), *options.split()]).metrics).endswith("127.0.0.1:9464")
