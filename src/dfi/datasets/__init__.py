"""Simulations with known truth and the data of the paper."""
