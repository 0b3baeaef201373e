"""What a cell keeps in Spark's state store."""
