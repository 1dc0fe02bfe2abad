"""Jobs, who does them and where their results are kept; knows nothing of figures."""
