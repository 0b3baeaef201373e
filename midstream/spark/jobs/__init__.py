"""Complete Spark jobs: the demos and the soak."""
