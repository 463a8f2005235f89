"""Models whose weights are read from their files while they run."""
