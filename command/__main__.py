"""python -m command"""

from command.cli import main
from tributary.settings.cli import run


def command() -> None:
    """The whole command: ends the process."""
    run(main, "tributary")


if __name__ == "__main__":
    command()
