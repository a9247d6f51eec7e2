"""The parts of a daemon: control sockets, logs, the service manager, signals; and text for answers."""
