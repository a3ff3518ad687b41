"""Estimates from what a user's earlier jobs did."""
