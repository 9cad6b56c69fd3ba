"""Results of an analysis: one importance or several, with tables, text and files."""
