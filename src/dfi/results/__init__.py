"""What an analysis returns: one importance or several, their tables, text and files."""
