"""python -m console"""

from console.cli import main
from tributary.settings.cli import run

if __name__ == "__main__":
    run(main, "tributary-console")
