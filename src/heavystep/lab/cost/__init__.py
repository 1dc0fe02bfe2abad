"""What things cost, as ratios within one run, because machines differ."""
