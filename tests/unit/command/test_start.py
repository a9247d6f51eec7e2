"""How a command starts: without what others need."""

import subprocess
import sys

from command import cli

_SLOW = ("doctor.examination", "gateway.enrolment", "command.remote", "command.tables", "tributary.api.console")
_START = f"""
import sys
from command import cli
cli.parser(quick=True)
print([name for name in {_SLOW} if name in sys.modules])
"""


def test_most_commands_start_without_what_the_others_need() -> None:
    done = subprocess.run([sys.executable, "-c", _START], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_each_command_is_there_either_way() -> None:
    every, quick = (cli.parser(quick=quick).format_help() for quick in (False, True))
    assert [name for name in cli._QUICK if f"\n    {name} " not in quick] == []
    for name in ("routers", "enrol", "rotate", "revoke", "forward", "doctor"):
        assert f"\n    {name} " in every
