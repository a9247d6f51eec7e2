"""What an image does when it boots: the settings on its boot partition become the system's files and units."""
