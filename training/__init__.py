"""GPU side: reads published snapshots and nothing else of the pipeline's working data."""
