"""Past runs: the commands `history` with its own, `show`, `rm`, `tag`."""
