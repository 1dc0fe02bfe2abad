"""Training frameworks, one module each, imported by whoever uses the framework.

A framework calls ``optimizer.step()`` itself, at a time of its own. These modules hand it the loss
that belongs to the gradients, and refuse what cannot be right.
"""
