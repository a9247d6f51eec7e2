"""python -m throttler"""

from throttler.cli import main
from tributary.settings.entry import run

run(main, "throttler")
