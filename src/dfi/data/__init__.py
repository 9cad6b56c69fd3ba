"""The front door: any table in, one numeric table out."""
