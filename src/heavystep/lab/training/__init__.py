"""One trainer of networks on images: data on the device, the loop, checkpoints, stored runs."""
