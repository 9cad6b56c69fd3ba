"""Standard errors, intervals, tests and multiplicity from an influence matrix."""
