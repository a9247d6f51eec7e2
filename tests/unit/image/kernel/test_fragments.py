"""Kernel configurations: what was asked for, and what came of it."""

from pathlib import Path

import pytest

from image.kernel.build import lost, parse, read_fragments
from tests.refusals import command_error
from tributary.settings.errors import Exit

MERGED = "# comment\nCONFIG_INET=y\nCONFIG_IPV6=y\n# CONFIG_MPTCP is not set\nCONFIG_HZ=250\n"


def test_a_configuration_has_values_and_what_is_not_set() -> None:
    assert parse(MERGED) == {"CONFIG_INET": "y", "CONFIG_IPV6": "y", "CONFIG_MPTCP": "n", "CONFIG_HZ": "250"}


@pytest.mark.parametrize(
    ("asked", "result", "kept"),
    [
        *(("y", "y", True), ("m", "y", True), ("m", "m", True), ("n", "n", True)),
        *(("y", "m", False), ("m", "n", False), ("n", "m", False), ("n", "y", False), ("250", "100", False)),
    ],
)
def test_an_option_is_kept_as_asked_or_a_module_built_in(asked: str, result: str, kept: bool) -> None:
    missing = lost({"x.config": {"CONFIG_X": asked}}, {"CONFIG_X": result})
    assert missing == ([] if kept else [f"CONFIG_X={asked} of x.config came out as {result}"])


def test_an_option_that_is_nowhere_is_lost_and_says_whose_it_was() -> None:
    missing = lost({"htb.config": {"CONFIG_NET_SCH_HTB": "m"}}, {})
    assert missing == ["CONFIG_NET_SCH_HTB=m of htb.config came out as n"]


@pytest.mark.parametrize("line", ["NET_SCH_HTB=m", "CONFIG_NET_SCH_HTB", "CONFIG_NET_SCH_HTB = m", " CONFIG_X=y", "y"])
def test_a_line_that_asks_for_nothing_is_refused_by_fragment_and_number(line: str, tmp_path: Path) -> None:
    (tmp_path / "htb.config").write_text(f"# The classes.\n\n{line}\n")
    with command_error(Exit.USAGE, " accepted: CONFIG_NAME=value", begins="htb.config: line 3: "):
        read_fragments(tmp_path)
