"""The daemon: sources in, plans out, and what others may ask of it while it runs."""
