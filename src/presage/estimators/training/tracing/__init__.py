"""A step of a training that computes nothing: what it would allocate, calculate and move.

Everything below imports torch and may be ended by it without warning, so it runs in a process of its own;
`presage.estimators.training.isolation` starts that and asks it. Only `allocator` and `ledger` need no torch.
"""
