"""The layer on a cluster: a standalone one, started on loopback, and `local-cluster`."""
