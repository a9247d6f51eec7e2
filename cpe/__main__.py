"""python -m cpe"""

from cpe.cli import main
from settings.entry import run

run(main, "cpe")
