"""Runs the suite: python3 -m conformance, beside the folder."""

import sys

from .cli import main

sys.exit(main(sys.argv[1:]))
