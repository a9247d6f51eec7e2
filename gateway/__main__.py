"""python -m gateway"""

from gateway.cli import main
from tributary.settings.cli import run


def command() -> None:
    """The whole command: ends the process."""
    run(main, "gateway")


if __name__ == "__main__":
    command()
