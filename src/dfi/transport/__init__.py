"""Transports between the features and independent latent coordinates."""
