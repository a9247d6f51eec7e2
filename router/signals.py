"""The daemon's signals."""

import signal

STOP = (signal.SIGTERM, signal.SIGINT)
LEAVE = signal.SIGUSR1
RELOAD = signal.SIGHUP
