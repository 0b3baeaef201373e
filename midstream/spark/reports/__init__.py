"""What cells tell about a batch, and what users read of it."""
