"""Checks of a computed result: each measures something and returns a Finding."""
