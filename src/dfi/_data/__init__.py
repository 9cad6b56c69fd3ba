"""Any table in, one numeric table out."""
