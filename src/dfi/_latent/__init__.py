"""What is read off latent coordinates beside scores: shares, contributions of rows, checks."""
