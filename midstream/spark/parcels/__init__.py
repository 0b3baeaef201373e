"""Rows as bytes, on the wire and in the state store."""
