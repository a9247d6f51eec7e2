"""A Linux kernel of Debian's source with all that kernel-config/ asks for, for those who need their own."""
