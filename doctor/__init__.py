"""What a machine lacks to be a working appliance: found, named, and fixed where a command can fix it."""
