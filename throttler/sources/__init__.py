"""Where events come from: the wire (a Scapy sniffer), the kernel's path manager, and the sockets of this host."""
