"""The commands, a file each; what several share is in `running` and `output`."""
