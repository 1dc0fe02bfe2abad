"""Averages of the iterates of an optimizer."""
