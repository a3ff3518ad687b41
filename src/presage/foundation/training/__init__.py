"""How the model learns: network, loss, pre-training on many clusters, fine-tuning on one. Needs torch."""
