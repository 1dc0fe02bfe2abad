"""Training steps recorded as CUDA graphs."""
