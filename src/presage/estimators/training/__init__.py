"""The training of a network: what a step takes, and from that memory and time."""
