"""What an optimizer did, step by step, for certificates and plots."""
