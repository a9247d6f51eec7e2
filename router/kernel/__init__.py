"""Reading and changing the state of the kernel."""
