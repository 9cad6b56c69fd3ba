"""What is estimated from rows before a map is made: components, correlations, margins, laws."""
