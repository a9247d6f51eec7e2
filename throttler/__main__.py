"""python -m throttler"""

from throttler.cli import main
from tributary.settings.cli import run


def command() -> None:
    """The whole command: ends the process."""
    run(main, "throttler")


if __name__ == "__main__":
    command()
