"""Exact line means of tree ensembles."""
