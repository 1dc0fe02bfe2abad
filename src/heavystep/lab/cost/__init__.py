"""Costs, as ratios within one run, because machines differ."""
