"""The Spark layer."""
