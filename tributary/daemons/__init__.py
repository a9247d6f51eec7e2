"""What our daemons are made of: control sockets, logs, the service manager, signals; and how answers are shown."""
