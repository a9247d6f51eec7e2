"""python -m gateway"""

from gateway.cli import main
from tributary.settings.cli import run

if __name__ == "__main__":
    run(main, "gateway")
