"""Means of a fitted model along latent lines."""
