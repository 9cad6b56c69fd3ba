"""Checks of a computed result: each measures something and says what follows as a Finding."""
