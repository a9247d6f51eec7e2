"""python -m cpe"""

from cpe.cli import main
from tributary.settings.entry import run

run(main, "cpe")
