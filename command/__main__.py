"""python -m command"""

from command.cli import main
from tributary.settings.cli import run

if __name__ == "__main__":
    run(main, "tributary")
