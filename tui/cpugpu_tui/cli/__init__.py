"""The commands, one file each. `running` and `output` hold what several commands share."""
