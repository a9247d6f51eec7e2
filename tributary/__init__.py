"""What all parts of Tributary share: how settings come in, what daemons are made of, and what Multipath TCP is here."""
