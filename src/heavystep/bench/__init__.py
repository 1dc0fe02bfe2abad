"""What things cost, measured as ratios in one run."""
