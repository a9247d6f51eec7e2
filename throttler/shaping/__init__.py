"""From assignments to the kernel: the plan, its text for tc and nft, and the module that applies it."""
