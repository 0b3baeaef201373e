"""Which rows go to which cells."""
