"""From wanted holds to the kernel: the plan, its text for tc and nft, and the one door through which it goes."""
