"""What the model sees of a cluster: numbers of its state, and earlier jobs that resemble the one asked about."""
