"""Figure 1: the theory checked by simulation."""
