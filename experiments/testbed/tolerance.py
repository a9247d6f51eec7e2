"""By how much a link may be off its description."""

from argparse import ArgumentParser

from tributary.settings.units import Share

TOLERANCE = 0.05


def add_tolerance(parser: ArgumentParser) -> None:
    """Give ``parser``, of a command that checks its links, the option --tolerance."""
    parser.add_argument(
        "--tolerance",
        type=Share.argument,
        default=Share.parse(f"{TOLERANCE:.0%}"),
        metavar="SHARE",
        help="by how much a link may be off its description (default: %(default)s)",
    )
