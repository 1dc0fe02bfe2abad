"""Closures: called once or several times, with the same random numbers and buffers."""
