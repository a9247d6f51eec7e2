"""python -m cpe"""

from cpe.cli import main
from tributary.settings.entry import run


def command() -> None:
    """The whole command: ends the process."""
    run(main, "cpe")


if __name__ == "__main__":
    command()
