"""The kernel: what it says, and what it is told."""
