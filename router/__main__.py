"""python -m router"""

from router.cli import main
from tributary.settings.cli import run

if __name__ == "__main__":
    run(main, "router")
