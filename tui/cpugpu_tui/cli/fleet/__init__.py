"""The commands of `fleet`: the same on many machines."""
