"""Runs of a method on a problem: kernels, the problems they know, what is measured."""
