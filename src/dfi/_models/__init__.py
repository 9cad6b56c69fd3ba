"""The regression: cross-fitted models and their out-of-fold predictions."""
