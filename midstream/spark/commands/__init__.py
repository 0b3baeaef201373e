"""What somebody outside tells a running join."""
