"""What stands between a machine and a working appliance: looked for, named, and mended where a command can."""
