"""What has to survive a restart, as tables and bytes."""
