"""Networks on images: model, data on the device, the loop, checkpoints."""
