"""Series against each other: the commands `compare`, `baseline`, `gate`."""
