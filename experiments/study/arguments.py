"""What every command that measures is given: where its results go, and how far the machine may be from quiet."""

from dataclasses import dataclass
from pathlib import Path

from experiments.testbed.profile import add_tolerance
from tributary.paths import ROOT
from tributary.settings.cli import Arguments
from tributary.settings.units import Share

_MOST_STOLEN = Share(20_000)
"""While 3 % were taken a process woke up 15 ms too late."""


@dataclass(frozen=True)
class Allowed:
    """A hypervisor may take the share ``most_stolen`` of the processors' time during a reading; a link may be off its
    description by the share ``tolerance``.
    """

    most_stolen: Share
    tolerance: Share

    def as_json(self) -> dict[str, object]:
        return {"most_stolen": str(self.most_stolen), "tolerance": str(self.tolerance)}


def add_measuring(parser: Arguments, printed: str) -> None:
    """--quick, --results, those of Allowed, and --json, which prints what is ``printed``."""
    parser.add_argument("--quick", action="store_true", help="less of everything, to see that it works")
    add_results(parser, "where to put them")
    parser.add_argument(
        "--most-stolen",
        type=Share.argument,
        default=_MOST_STOLEN,
        metavar="SHARE",
        help="of the processors' time, by a hypervisor; beyond, a reading is taken again (default: %(default)s)",
    )
    add_tolerance(parser)
    parser.add_argument("--json", action="store_true", help=f"print {printed} as one JSON object on standard output")


def add_results(parser: Arguments, what: str) -> None:
    """Their folder."""
    parser.add_argument(
        "--results", type=Path, default=ROOT / "results", metavar="DIR", help=f"{what} (default: results/)"
    )
