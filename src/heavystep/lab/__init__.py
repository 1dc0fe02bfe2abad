"""The laboratory: what reproduces the paper and measures methods."""
