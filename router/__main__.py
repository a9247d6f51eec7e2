"""python -m router"""

from router.cli import main
from tributary.settings.cli import run


def command() -> None:
    """The whole command: ends the process."""
    run(main, "router")


if __name__ == "__main__":
    command()
