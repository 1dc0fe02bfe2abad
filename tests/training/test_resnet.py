"""The networks are the usual ones."""

import pytest
import torch
from torch import nn

from heavystep.training.resnet import NETWORKS, Block


def test_resnet18_is_the_usual_one_for_small_images():
    net = NETWORKS["resnet18"](10)
    assert sum(p.numel() for p in net.parameters()) == 11_173_962
    assert sum(isinstance(m, nn.Conv2d) for m in net.modules()) == 20
    assert sum(isinstance(m, nn.BatchNorm2d) for m in net.modules()) == 20
    shapes = []
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(lambda m, i, out: shapes.append(tuple(out.shape[1:])))
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert shapes[0] == (64, 32, 32)
    assert shapes[-1][1:] == (4, 4)


@pytest.mark.parametrize(("inputs", "stride"), [(6, 1), (4, 1), (6, 2)])
def test_a_block_is_its_formula(inputs, stride):
    torch.manual_seed(1)
    block = Block(inputs, 6, stride).double().eval()
    x = torch.randn(2, inputs, 8, 8, dtype=torch.float64)

    def layer(part, x, stride=1):
        weight = part[0].weight
        y = nn.functional.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
        return y / (1.0 + 1e-5) ** 0.5  # as BatchNorm begins

    inner = layer(block.first, x, stride).clamp(min=0.0)
    same = inputs == 6 and stride == 1
    outer = layer(block.second, inner) + (x if same else layer(block.shortcut, x, stride))
    torch.testing.assert_close(block(x), outer.clamp(min=0.0), rtol=1e-12, atol=1e-12)


def test_weights_begin_as_he_et_al_do():
    net = NETWORKS["resnet18"](10)
    weight = net.stages[2].first[0].weight  # 64 to 128 colours
    assert weight.std().item() == pytest.approx((2.0 / (128 * 9)) ** 0.5, rel=0.02)
