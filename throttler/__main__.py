"""python -m throttler"""

from settings.entry import run
from throttler.cli import main

run(main, "throttler")
