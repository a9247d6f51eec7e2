"""Sources of events: packets (a Scapy sniffer), the kernel's path manager, and the sockets of this host."""
