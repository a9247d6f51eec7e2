"""From what the kernel has to what it shall have: desired state, plan, and what of it is owned."""
