"""Back ends that run whole trajectories on finite sums; each imports what it needs."""
