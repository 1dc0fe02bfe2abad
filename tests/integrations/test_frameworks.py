"""Every framework trains as the literal loop does, and what cannot be right is refused."""

from functools import partial

import pytest
import torch

from heavystep import SHBArmijo, SHBPolyak
from tests.helpers.by_hand import (
    armijo,
    assert_below_caps,
    bf16,
    by_hand,
    every_optimizer,
    fp16,
    polyak,
    without_closure,
)
from tests.helpers.training import flat, loss_of, make_batches, make_net
from tests.integrations.frameworks import FRAMEWORKS, over

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),  # the data are small
    # Lightning 2.6 asks torch in the way of an older release.
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:the gradient has norm"),  # it is clipped
]
every_framework = over(FRAMEWORKS)
WITH_CLOSURES = [name for name, each in FRAMEWORKS.items() if each.closures]


def assert_literal(framework, make, closure, micro_batches=1, clip=None, atol=1e-12):
    """Two epochs, whose last gradient is of fewer micro-batches."""
    batches = make_batches(8, dtype=torch.float64)
    nets = [make_net(dtype=torch.float64) for _ in range(2)]
    opt, divisor = make(nets[0].parameters()), micro_batches if framework.divides_by_all else None
    for _ in range(2):
        by_hand(
            nets[0], opt, batches, closure=closure, micro_batches=micro_batches, divisor=divisor,
            clip=clip,
        )  # fmt: skip
    framework(nets[1], make, batches, micro_batches=micro_batches, clip=clip, epochs=2)
    torch.testing.assert_close(flat(nets[1]), flat(nets[0]), rtol=0.0, atol=atol)
    if not closure:
        assert_below_caps(opt)


@pytest.mark.parametrize(("micro_batches", "clip"), [(1, None), (3, None), (3, 0.05)])
@every_framework
@without_closure
def test_training_is_the_literal_loop(case, framework, micro_batches, clip):
    assert_literal(framework, case.make, False, micro_batches, clip)


@over(WITH_CLOSURES)
@every_optimizer
def test_a_closure_is_the_literal_one(case, framework):
    assert_literal(framework, case.make, case.needs_closure)


def test_a_clipped_closure():
    assert_literal(FRAMEWORKS["lightning"], armijo, True, clip=0.05)


@every_framework
@pytest.mark.parametrize("closure", [False, True])
def test_bfloat16(framework, closure):
    if closure and not framework.closures:
        pytest.skip("the framework has no closures")
    batches, nets = make_batches(12), [make_net(), make_net()]
    begin = sum(loss_of(nets[0], batch) for batch in batches).item()
    make, eps = polyak, {}
    if closure:
        make, eps = armijo, {"loss_eps": torch.finfo(torch.bfloat16).eps}
    opt = make(nets[0].parameters(), **eps)
    for _ in range(5):
        by_hand(nets[0], opt, batches, closure=closure, context=bf16)
    done = framework(nets[1], make, batches, bf16=True, epochs=5)
    assert torch.equal(flat(nets[1]), flat(nets[0]))  # the same operations in the same order
    assert sum(loss_of(nets[1], batch) for batch in batches).item() < 0.9 * begin
    assert done.param_groups[0].get("loss_eps") == (2**-7 if closure else None)
    if not closure:
        assert_below_caps(opt)


@over(WITH_CLOSURES)
@pytest.mark.parametrize(("expected", "short"), [(2**-8, True), (None, False)])
def test_a_tolerance_of_the_user_stays(framework, expected, short):
    done = framework(make_net(), partial(SHBArmijo, loss_eps=expected), make_batches(1), bf16=short)
    assert done.param_groups[0]["loss_eps"] == expected


@pytest.mark.parametrize("scale", [2.0**10, 2.0**40])
@pytest.mark.parametrize("micro_batches", [1, 2])
@over([name for name in FRAMEWORKS if name != "attached trainer"])
def test_a_grad_scaler_is_invisible(framework, scale, micro_batches):
    """The larger scale overflows at first: steps are skipped, and so are their losses."""
    batches, nets = make_batches(40), [make_net(), make_net()]
    scalers = [torch.amp.GradScaler("cpu", init_scale=scale, backoff_factor=2.0**-8) for _ in nets]
    clip = None if framework.package == "transformers" else 0.5
    opt = polyak(nets[0].parameters())
    by_hand(
        nets[0], opt, batches, micro_batches=micro_batches, context=fp16, scaler=scalers[0],
        clip=clip,
    )  # fmt: skip
    framework(nets[1], polyak, batches, micro_batches=micro_batches, scaler=scalers[1], clip=clip)
    assert torch.equal(flat(nets[1]), flat(nets[0]))  # the same operations in the same order
    assert (scalers[1].get_scale() < scale) == (scale == 2.0**40)
    assert_below_caps(opt)


@pytest.mark.parametrize(
    ("cls", "options"), [(SHBPolyak, {"micro_batches": 2}), (SHBArmijo, {"bf16": True})]
)
@over([name for name, each in FRAMEWORKS.items() if each.saves])
def test_a_resumed_run_is_the_uninterrupted_one(framework, cls, options, tmp_path):
    if cls.method.rule.searches and not framework.closures:
        pytest.skip("the framework has no closures")
    batches, make = make_batches(6), partial(cls, weight_decay=0.01)
    whole, half, resumed = make_net(), make_net(), make_net(seed=5)
    framework(whole, make, batches, epochs=4, **options)
    framework(half, make, batches, epochs=2, save=tmp_path, **options)
    assert not torch.equal(flat(half), flat(whole))
    framework(resumed, partial(cls, c=0.9), batches, epochs=4, resume=tmp_path, **options)
    assert torch.equal(flat(resumed), flat(whole))


@over(["lightning", "accelerate", "trainer"])
def test_other_optimizers_take_their_gradients_alone(framework):
    batches, nets = make_batches(4), [make_net(), make_net()]
    for batch in batches:
        nets[0].zero_grad()
        loss_of(nets[0], batch).backward()
        with torch.no_grad():
            for param in nets[0].parameters():
                param -= 0.1 * param.grad
    framework(nets[1], partial(torch.optim.SGD, lr=0.1), batches)
    torch.testing.assert_close(flat(nets[1]), flat(nets[0]))


REFUSED = {
    "accumulation": ({"micro_batches": 3}, r"needs \w+=1, got 3: .* use SHBPolyak"),
    "scaler": ({"scaler": torch.amp.GradScaler("cpu")}, "go with a GradScaler.*: use .*bf16.*, or"),
}


@pytest.mark.parametrize("reason", REFUSED)
@over(WITH_CLOSURES)
def test_closures_are_refused_where_they_cannot_be_right(framework, reason):
    options, message = REFUSED[reason]
    net = make_net()
    before = flat(net)
    with pytest.raises(ValueError, match=f"SHBArmijo with a closure .*{message}"):
        framework(net, SHBArmijo, make_batches(3), **options)
    assert torch.equal(flat(net), before)


@over(["hand_over", "attach", "trainer"])
def test_a_line_search_without_a_closure_is_refused(framework):
    with pytest.raises(TypeError, match=r"SHBArmijo .*needs step\(closure\)"):
        framework(make_net(), SHBArmijo, make_batches(1))
