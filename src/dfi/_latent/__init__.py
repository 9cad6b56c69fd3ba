"""Everything computed from latent coordinates besides scores: shares, contributions, checks."""
