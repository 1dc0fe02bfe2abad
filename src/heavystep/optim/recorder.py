"""Record what an optimizer did at every step, for certificates and plots."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from heavystep import validation
from heavystep.arrays import Array
from heavystep.momentum import HEAVY_BALL
from heavystep.optim.measure import decay_of, growth_of_rounding
from heavystep.optim.optimizer import RuleOptimizer
from heavystep.optim.options import Group
from heavystep.records import Record, heavy_ball_defect

_BLOCK = 1024
ROUNDINGS = 16.0
"""Roundings of the largest term by which a heavy-ball step may be off: it has five operations, each
wrong by one or two where a kernel takes another order, and is compared in float64."""
_CONSTANTS = ("c", "decrease_factor", "scaling")
_PER_STEP = {"beta", "gamma_max", "eta"}  # alike in all runs of a record
_LR_DIFFERS = "a record has one step gamma_k: lr (eta) must be the same in all parameter groups"


class Recorder:
    r"""Writes down every step of an optimizer, from its construction to :meth:`detach`.

    ``record()`` gives a :class:`heavystep.records.Record` of one run: step gamma_k, loss,
    squared gradient norm and lower bound as the rule saw them, eta_k (``lr``), beta_k
    (``momentum``) and gamma_max,k (``max_step``) as they were at that step. Numbers stay on
    their device until then: a Polyak step still waits for nothing. Replays of a CUDA graph
    cannot be seen. A step that raised is not recorded. A refused batch is, with step 0 and
    ``accepted`` False: it is no step of the recursion, which goes on from the last accepted one.

    With ``iterates=True`` also :math:`\theta_0 .. \theta_K` and the sampled gradients, each one
    float64 vector over all groups; this reads the device. ``record()`` then checks that every
    step is the recursion from :math:`\theta_{-1} = \theta_0`, up to rounding.

    Weight decay: ``decay="objective"`` is recorded as the rule saw it, as part of loss and
    gradient. Decoupled decay enters no step size, so what is known of these still holds of
    the record, but its iterates obey no theorem and are refused.

    Args:
        optimizer: one that chooses its step, such as :class:`SHBPolyak` or :class:`SLS`. The record
            of a method that no theorem covers bears its name, and :func:`heavystep.certify`
            refuses it.
        iterates: whether to record iterates and gradients too.

    Raises:
        TypeError: the optimizer chooses no step size.
        ValueError: its groups differ in ``lr``, or ``iterates`` are wanted of a method whose
            iterates are not those of heavy ball, or with decoupled weight decay.

    >>> import torch
    >>> from heavystep import Recorder, SHBPolyak
    >>> theta = torch.tensor([3.0, -1.0], requires_grad=True)
    >>> opt = SHBPolyak([theta], momentum=0.5)
    >>> with Recorder(opt, iterates=True) as recorder:
    ...     for _ in range(3):
    ...         _ = opt.step(lambda: ((theta - torch.tensor([1.0, 2.0])) ** 2).sum())
    >>> record = recorder.record()
    >>> record.gamma.round(4).tolist(), record.iterates.shape
    ([[0.125, 0.125, 0.125]], (1, 4, 2))
    """

    def __init__(self, optimizer: Optimizer, *, iterates: bool = False) -> None:
        validation.choice("iterates", iterates, (False, True))
        self._rule = _rule_of(optimizer, iterates)
        self._wants_iterates = iterates
        self._iterates: list[Tensor] = []
        self._gradients: list[Tensor] = []
        self._theta = torch.empty(0)  # theta_k, before a step that may yet raise
        self._rows: list[Group] = []
        self._blocks: list[Group] = []
        self._constants: Group = {}
        self._smooth_reset = False
        self._eps = self._tiny = 0.0
        self._loss_formats: set[torch.dtype] = set()
        self._flaw: str | None = None
        """Keep the reason why this is no record of one run; ``record`` raises it."""
        # A compiled step would be compiled anew whenever the record grows.
        before, after = map(torch.compiler.disable, (self._before, self._after))
        post: Any = optimizer.register_step_post_hook(after)
        # Before the other post-hooks: one may drive a scheduler or clear the gradients.
        post.hooks_dict_ref().move_to_end(post.id, last=False)
        self._handles = [optimizer.register_step_pre_hook(before), post]

    def detach(self) -> None:
        """Stop recording; what was recorded stays."""
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *exception: object) -> None:
        self.detach()

    def record(self) -> Record:
        """The record so far, as numbers; waits for the device.

        Raises:
            ValueError: nothing was recorded, or not one run of one method; says why.
        """
        if self._flaw is not None:
            raise ValueError(self._flaw)
        if not self._rows and not self._blocks:
            raise ValueError("nothing recorded: call the optimizer's step() first")
        blocks = [*self._blocks, *([_packed(self._rows)] if self._rows else [])]
        found = {name: _numbers(blocks, name) for name in blocks[0]}
        found["accepted"] = found["accepted"] != 0.0
        if self._wants_iterates:
            found["iterates"] = torch.stack(self._iterates).numpy()
            found["gradients"] = torch.stack(self._gradients).numpy()
        found |= {name: found[name][None] for name in found.keys() - _PER_STEP}
        if self._wants_iterates:
            self._check_path(found)
        return Record(
            rule=self._rule,
            scaling=self._constants.get("scaling", "plain"),
            c=float(self._constants.get("c", 1.0)),
            omega=self._constants.get("decrease_factor"),
            smooth_reset=self._smooth_reset,
            eps=self._eps,
            tiny=self._tiny,
            **found,
        )

    def _check_path(self, found: dict[str, Array]) -> None:
        """Refuse iterates that are not heavy-ball steps from those before them."""
        names = ("iterates", "gamma", "gradients", "beta", "accepted")
        error, size = heavy_ball_defect(*(found[name] for name in names))
        wrong = abs(error) > ROUNDINGS * self._limits.eps * (size + self._limits.tiny)
        if wrong.any():
            raise ValueError(
                f"step {np.nonzero(wrong)[1][0]} is no heavy-ball step from the iterates before "
                "it: attach before the first step, load no other state, keep all gradients and "
                "no weight decay"
            )

    def _before(self, optimizer: Any, args: Any, kwargs: Group) -> tuple[Any, Group]:
        self._loss_formats.clear()
        self._note_format(kwargs.get("loss"))
        if self._wants_iterates:
            self._theta = flat(optimizer._all_params)
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if not callable(closure):
            return args, kwargs

        def noted() -> Any:  # the format of a closure's loss shows nowhere else
            loss = closure()
            self._note_format(loss)
            return loss

        if len(args) > 1:
            return (args[0], noted, *args[2:]), kwargs
        return args, {**kwargs, "closure": noted}

    def _note_format(self, loss: Any) -> None:
        if isinstance(loss, Tensor) and loss.is_floating_point():
            self._loss_formats.add(loss.dtype)

    def _after(self, optimizer: Any, args: Any, kwargs: Group) -> None:
        groups, info = optimizer.param_groups, optimizer.info
        options, step = groups[0], len(self._rows) + _BLOCK * len(self._blocks)
        if getattr(info.step, "is_cuda", False) and torch.cuda.is_current_stream_capturing():
            self._flaw = self._flaw or "a CUDA graph was captured: its replays cannot be recorded"
            return
        largest = options.get("max_step", np.nan)  # NaN for a rule that knows of none
        row = {
            "gamma": info.step,
            "loss": info.loss,
            "grad_sqnorm": info.grad_sqnorm,
            "f_star": -np.inf if info.lower_bound is None else info.lower_bound,
            "accepted": info.accepted,
            "beta": options["momentum"],
            "gamma_max": np.inf if largest is None else largest,
            "eta": options["lr"],
        }
        # Cloned, because a bound, an lr on the device or a static loss may change in place.
        self._rows.append(
            {n: v.detach().clone() if isinstance(v, Tensor) else float(v) for n, v in row.items()}
        )
        self._note_rounding(optimizer)
        self._smooth_reset |= options.get("steps_per_epoch") is not None
        flaw = self._flaw_of(groups)
        if self._wants_iterates:
            if self._iterates and not torch.equal(self._theta, self._iterates[-1]):
                flaw = "something else than step() had changed the parameters"
            self._iterates += [] if self._iterates else [self._theta]
            self._iterates.append(flat(optimizer._all_params))
            self._gradients.append(_gradient_seen(optimizer, self._theta))
        if flaw is not None and self._flaw is None:
            self._flaw = f"step {step} cannot be recorded: {flaw}"
        if len(self._rows) == _BLOCK:
            self._blocks.append(_packed(self._rows))
            self._rows = []

    def _flaw_of(self, groups: list[Group]) -> str | None:
        """The reason why these options are not those of the run so far; None if they are."""
        constants = {name: groups[0][name] for name in _CONSTANTS if name in groups[0]}
        self._constants = self._constants or constants
        for name, first in self._constants.items():
            if groups[0][name] != first:
                label = validation.label(name)
                return f"{label} changed during the run, from {first!r} to {groups[0][name]!r}"
        return None if _share_lr(groups) else _LR_DIFFERS

    def _note_rounding(self, optimizer: RuleOptimizer) -> None:
        """Take in the machine epsilon and smallest normal number of all formats of the step."""
        params, group = optimizer._all_params, optimizer.param_groups[0]
        formats = {param.dtype for param in params}
        self._limits = max(map(torch.finfo, formats), key=lambda limits: limits.eps)
        formats |= self._loss_formats
        kind = params[0].device.type
        if torch.is_autocast_enabled(kind):
            formats.add(torch.get_autocast_dtype(kind))
        given = group.get("loss_eps") or 0.0
        if example_loss := group.get("example_loss", 0.0):  # of a search, whose loss is on the host
            given *= growth_of_rounding(float(optimizer._outcome["loss"]), example_loss)
        limits = [torch.finfo(dtype) for dtype in formats]
        self._eps = max(self._eps, given, *(one.eps for one in limits))
        self._tiny = max(self._tiny, *(one.tiny for one in limits))


def _rule_of(optimizer: Any, iterates: bool) -> str:
    """The name under which the theory knows the rule, or the method's if no theorem covers it.

    Refuses what can be seen beforehand to make the record of no use.
    """
    if not isinstance(optimizer, RuleOptimizer) or "loss" not in optimizer.method.rule.reads:
        raise TypeError(
            "Recorder needs an optimizer that chooses its step (SHBPolyak, SHBArmijo, SPS, SLS or "
            f"another), got {type(optimizer).__name__}"
        )
    method, groups = optimizer.method, optimizer.param_groups
    unlike = f"has the momentum form {method.form.name!r}"
    if method.form is HEAVY_BALL:
        unlike = f"divides it by the diagonal {method.diagonal!r}" if method.diagonal else ""
    if iterates and unlike:
        raise ValueError(f"iterates=True is for heavy ball, and {method.name} {unlike}")
    if not _share_lr(groups):
        raise ValueError(f"{_LR_DIFFERS}, got {', '.join(repr(g['lr']) for g in groups)}")
    decays = [decay for g in groups if (decay := decay_of(g, "decoupled"))]
    if iterates and decays:
        raise ValueError(
            f"iterates=True needs weight_decay 0 or decay='objective', got {decays[0]}: with "
            "decoupled decay the iterates do not follow the heavy-ball recursion"
        )
    return method.known_as


def _share_lr(groups: list[Group]) -> bool:
    # Only the same tensor counts as equal: a comparison of values would wait for the device.
    lrs = (group["lr"] for group in groups)
    return len({id(lr) if isinstance(lr, Tensor) else lr for lr in lrs}) == 1


def _packed(rows: list[Group]) -> Group:
    """Columns; tensors in one place become one, since on a GPU each alone takes 512 bytes."""
    columns: Group = {name: [row[name] for row in rows] for name in rows[0]}
    for name, values in columns.items():
        places = {getattr(value, "device", None) for value in values}
        if len(places) == 1 and None not in places:
            columns[name] = torch.stack(values)
    return columns


def _numbers(blocks: list[Group], name: str) -> Array:
    columns = (c.tolist() if isinstance(c, Tensor) else c for c in (b[name] for b in blocks))
    return np.array([float(value) for column in columns for value in column])


def flat(tensors: list[Tensor]) -> Tensor:
    """One vector in new memory."""
    return torch.cat([t.detach().reshape(-1).to("cpu", torch.float64) for t in tensors])


def _gradient_seen(optimizer: RuleOptimizer, theta: Tensor) -> Tensor:
    """The gradient as the rule saw it at ``theta``: with weight decay in the objective."""
    owned = [(group, param) for group in optimizer.param_groups for param in group["params"]]
    origins = torch.split(theta, [param.numel() for _, param in owned])
    pieces = []
    for (group, param), origin in zip(owned, origins, strict=True):
        grad = param.grad if param.requires_grad else None
        decay = decay_of(group, "objective")
        if grad is not None and decay:
            grad = torch.add(grad, origin.view_as(param).to(param), alpha=decay)
        pieces.append(torch.zeros_like(origin) if grad is None else grad)
    return flat(pieces)
