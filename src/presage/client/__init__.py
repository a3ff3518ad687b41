"""What training loops and other programs use: progress, checkpoints."""
