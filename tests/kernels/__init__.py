"""Every kernel against a naive twin."""
