"""Tries the main methods on a model for a few hundred steps, and says which to use."""
