"""The processes that keep the engines of cells alive between batches."""
