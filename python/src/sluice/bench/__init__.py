"""Measurements of the PyTorch layer: ``python -m sluice.bench --dir DIR``."""
