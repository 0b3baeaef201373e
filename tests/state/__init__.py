"""Columns, indexes, base windows, join states and holes against plain models."""
