"""Figure 2: logistic regression on LIBSVM data."""
