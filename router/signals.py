"""What signals tell the daemon."""

import signal

STOP = (signal.SIGTERM, signal.SIGINT)
LEAVE = signal.SIGUSR1
RELOAD = signal.SIGHUP
