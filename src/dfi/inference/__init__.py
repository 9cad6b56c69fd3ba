"""Standard errors, intervals, tests, multiplicity and simultaneous bands."""
