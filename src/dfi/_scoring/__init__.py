"""Latent scores and their attribution to features, as influence matrices."""
