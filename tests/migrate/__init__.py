"""Changing the plan of a running query must not be seen in the output, whatever the strategy."""
