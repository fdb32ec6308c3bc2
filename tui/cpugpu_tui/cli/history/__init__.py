"""Saved runs: the commands `history` with its subcommands, `show`, `rm` and `tag`."""
