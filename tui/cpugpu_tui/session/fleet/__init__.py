"""The same plan on many machines: an agent on each host, one state of them all."""
