"""Figure 3: ResNet-18 on CIFAR."""
