"""Runs of a method on a problem: compiled kernels, the problems they know, what is measured."""

KERNEL_VERSION = 1
"""Part of the key of stored runs. Raise it when the same problem, method and seed give other
numbers because something in this package changed: the order of operations in a kernel, the stream
of samples, what a metric means. A rule and a momentum form carry versions of their own."""
