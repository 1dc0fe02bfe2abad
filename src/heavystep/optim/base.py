"""The heavy-ball iteration that all optimizers share, and the torch contract around it."""

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import ParamsT

from heavystep import validation
from heavystep.optim.closure import (
    Closure,
    GradientWatch,
    checked_loss,
    evaluate_with_gradients,
)
from heavystep.optim.info import StepInfo
from heavystep.optim.torch_primitives import as_scalar
from heavystep.optim.vectors import Update, heavy_ball, squared_norm, state_dtype
from heavystep.rules import where

Group = dict[str, Any]
DECAYS = ("decoupled", "objective")


class Active(NamedTuple):
    """A parameter group reduced to the parameters that have a gradient."""

    group: Group
    params: list[Tensor]
    grads: list[Tensor]


class Sample(NamedTuple):
    """Loss and gradient of one batch, as the rule sees them."""

    groups: list[Active]
    loss: Tensor | None
    grad_sqnorm: Tensor

    @property
    def params(self) -> list[Tensor]:
        """All parameters that have a gradient."""
        return [param for active in self.groups for param in active.params]

    @property
    def grads(self) -> list[Tensor]:
        """Their gradients, in the same order."""
        return [grad for active in self.groups for grad in active.grads]


class Decision(NamedTuple):
    """What a rule decided: 0-dim tensors, or numbers where the host decided."""

    base_step: Any
    """The step before the multiplier; of no meaning unless accepted."""
    accepted: Any
    capped: Any
    trials: int


class HeavyBall(Optimizer):
    r"""Stochastic heavy ball, one step size for the whole parameter vector.

    .. math:: \theta_{k+1} = \theta_k - \gamma_k g_k + \beta_k (\theta_k - \theta_{k-1}),
              \qquad \theta_{-1} = \theta_0

    The state of a parameter is its displacement :math:`\theta_k - \theta_{k-1}`, which is
    not the buffer of ``torch.optim.SGD`` once the step varies. A subclass chooses
    :math:`\gamma_k`; everything else is here.
    """

    _ranges: ClassVar[Mapping[str, validation.Interval]] = {
        "lr": validation.NON_NEGATIVE,
        "momentum": validation.UNIT,
        "weight_decay": validation.NON_NEGATIVE,
    }
    """The allowed range of each numeric option."""

    _optional: ClassVar[frozenset[str]] = frozenset()
    """Numeric options that may be None."""

    _may_differ: ClassVar[frozenset[str]] = frozenset(
        {"params", "param_names", "lr", "initial_lr", "weight_decay", "last_step"}
    )
    """Options that parameter groups need not share, besides what schedulers add."""

    _watch: GradientWatch | None = None

    def __init__(self, params: ParamsT, defaults: Group) -> None:
        self._check_options(defaults)
        # In a dict, because a compiled step cannot set an attribute of its optimizer.
        self._outcome: dict[str, Any] = {}
        super().__init__(params, defaults)

    @property
    def info(self) -> StepInfo | None:
        """What the last step did; None before the first one."""
        return StepInfo(**self._outcome) if self._outcome else None

    @torch.no_grad()
    def step(
        self, closure: Closure | None = None, *, loss: Any = None, lower_bound: Any = None
    ) -> Any:
        """Choose the step size for this batch and take the step.

        Args:
            closure: returns the loss of the batch; it may call ``backward()`` or leave that
                to the optimizer. A closure that returns a float or a detached tensor says
                that the gradients in ``p.grad`` belong to it.
            loss: the loss whose gradients are in ``p.grad``, instead of a closure. Unscaled
                if a GradScaler is used, and the mean over micro-batches if gradients were
                accumulated as a mean.
            lower_bound: lower bound of this batch's loss, instead of the optimizer's.

        Returns:
            The loss, detached.
        """
        returned, sample = self._first_evaluation(closure, loss)
        decision = self._decide(sample, lower_bound)
        self._apply(sample, decision)
        self._report(sample.loss, sample.grad_sqnorm, decision)
        return returned

    @abstractmethod
    def _decide(self, sample: Sample, lower_bound: Any) -> Decision:
        """Choose the step for this batch."""

    def _first_evaluation(self, closure: Closure | None, loss: Any) -> tuple[Any, Sample]:
        """Loss and gradient from the arguments of ``step``."""
        self._one_source(closure, loss)
        if closure is not None:
            returned, _ = self._call(closure)
        else:
            returned = None if loss is None else checked_loss(loss, "loss")
            returned = returned.detach() if isinstance(returned, Tensor) else returned
        return returned, self._sample(returned)

    def _one_source(self, closure: Closure | None, loss: Any) -> None:
        if closure is None and loss is None:
            raise ValueError(
                f"{type(self).__name__}.step() needs the loss: call step(loss=loss) after "
                "loss.backward(), or step(closure)"
            )
        if closure is not None and loss is not None:
            raise ValueError("step() takes a closure or loss=, not both")
        if closure is not None and not callable(closure):
            raise TypeError(
                f"closure must be callable, got {closure!r}: pass the loss as step(loss=loss)"
            )

    def _call(self, closure: Closure) -> tuple[Any, bool]:
        params = self._all_params
        self._watch = GradientWatch(params)
        # An autocast around the training loop keeps casts of the parameters before the last step.
        torch.clear_autocast_cache()
        try:
            return evaluate_with_gradients(closure, params, self._watch)
        finally:
            self._watch = None

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients, as in every torch optimizer."""
        super().zero_grad(set_to_none)
        if self._watch is not None:
            # Zeros written in place inside a closure are not gradients that it computed.
            self._watch.reset()

    def _sample(self, loss: Any) -> Sample:
        self._check_agreement()
        groups = [self._active(group) for group in self.param_groups]
        grads = [grad for active in groups for grad in active.grads]
        dtype, device = self._scalar_format()
        value = None if loss is None else as_scalar(loss, dtype, device)
        if not grads:
            warnings.warn(
                "no parameter has a gradient and nothing was updated: call loss.backward() "
                "before step(loss=loss)",
                RuntimeWarning,
                stacklevel=6,  # the line that calls step()
            )
            return Sample(groups, value, torch.zeros((), dtype=dtype, device=device))
        if value is not None:
            value = value + self._decay_term(groups, dtype)
        return Sample(groups, value, squared_norm(grads, dtype, self._foreach))

    def _active(self, group: Group) -> Active:
        """Parameters with a gradient; weight decay in the objective is part of it."""
        params: list[Tensor] = []
        grads: list[Tensor] = []
        for param in group["params"]:
            grad = param.grad
            if grad is None or not param.requires_grad:
                continue
            if grad.layout != torch.strided:
                raise TypeError(
                    f"{type(self).__name__} does not support sparse gradients, got layout "
                    f"{grad.layout}: use dense embeddings (sparse=False)"
                )
            params.append(param)
            grads.append(grad)
        if group["decay"] == "objective" and group["weight_decay"] and params:
            grads = list(torch._foreach_add(grads, params, alpha=group["weight_decay"]))
        return Active(group, params, grads)

    def _decay_term(self, groups: list[Active], dtype: torch.dtype) -> Tensor | float:
        """The part (lambda/2) ||theta||^2 of the objective, at the present parameters."""
        terms = [
            0.5 * active.group["weight_decay"] * squared_norm(active.params, dtype, self._foreach)
            for active in groups
            if active.params
            and active.group["decay"] == "objective"
            and active.group["weight_decay"]
        ]
        return torch.stack(terms).sum() if terms else 0.0

    def _apply(self, sample: Sample, decision: Decision) -> None:
        accepted = decision.accepted
        if not isinstance(accepted, Tensor):
            device = sample.grad_sqnorm.device
            accepted = torch.full((), accepted, dtype=torch.bool, device=device)
        for active in sample.groups:
            if active.params:
                self._apply_group(active, decision.base_step, accepted)

    def _apply_group(self, active: Active, base_step: Any, accepted: Tensor) -> None:
        group = active.group
        step = group["lr"] * base_step
        decoupled = group["decay"] == "decoupled" and group["weight_decay"]
        update = Update(
            step=step,
            momentum=group["momentum"],
            shrink=1.0 - step * group["weight_decay"] if decoupled else None,
            accepted=accepted,
        )
        heavy_ball(active.params, active.grads, self._displacements(active), update, self._foreach)

    def _report(self, loss: Any, grad_sqnorm: Any, decision: Decision) -> None:
        base_step = decision.base_step
        if isinstance(grad_sqnorm, Tensor):
            base_step = as_scalar(base_step, grad_sqnorm.dtype, grad_sqnorm.device)
        base_step = where(decision.accepted, base_step, 0.0)
        self._outcome.update(
            step=self.param_groups[0]["lr"] * base_step,
            base_step=base_step,
            loss=loss,
            grad_sqnorm=grad_sqnorm,
            trials=decision.trials,
            accepted=decision.accepted,
            capped=decision.capped,
        )

    def _displacements(self, active: Active) -> list[Tensor] | None:
        """theta_k - theta_{k-1} of each parameter; None while there is no momentum."""
        momentum = active.group["momentum"]
        if not momentum and not any(self.state.get(p) for p in active.params):
            return None
        displacements = []
        for param in active.params:
            state, dtype = self.state[param], state_dtype(param.dtype)
            displacement = state.get("displacement")
            if displacement is None:
                displacement = torch.zeros_like(param, dtype=dtype)
            elif displacement.device != param.device or displacement.dtype != dtype:
                displacement = displacement.to(param.device, dtype)  # the model was moved
            state["displacement"] = displacement
            displacements.append(displacement)
        return displacements

    @property
    def _all_params(self) -> list[Tensor]:
        return [param for group in self.param_groups for param in group["params"]]

    @property
    def _foreach(self) -> bool:
        return self.param_groups[0]["foreach"] is not False

    def _scalar_format(self) -> tuple[torch.dtype, torch.device]:
        """Format and place of losses, norms and steps."""
        params = self._all_params
        wide = any(param.dtype == torch.float64 for param in params)
        return torch.float64 if wide else torch.float32, params[0].device

    def _check_options(self, options: Group) -> None:
        for name, interval in self._ranges.items():
            if options[name] is not None or name not in self._optional:
                validation.real(name, options[name], interval)
        validation.choice("decay", options["decay"], DECAYS)
        validation.choice("foreach", options["foreach"], (None, True, False))

    def _check_agreement(self) -> None:
        """All groups share the rule's constants, in range whatever a scheduler did to them."""
        first, *others = self.param_groups
        # Not lr: it may be a tensor on the device, which must not be read at every step.
        self._check_options({**first, "lr": 1.0})
        for other in others:
            for name in self.defaults.keys() - self._may_differ:
                if other[name] != first[name]:
                    validation.disagree(name, (g[name] for g in self.param_groups))

    def add_param_group(self, param_group: Group) -> None:
        """Add a parameter group; a refused one leaves the optimizer as it was."""
        super().add_param_group(param_group)
        try:
            self._check_group(self.param_groups[-1])
            self._check_agreement()
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise

    def _check_group(self, group: Group) -> None:
        self._check_options(group)
        device = self.param_groups[0]["params"][0].device if group["params"] else None
        for param in group["params"]:
            if not param.is_floating_point():
                kind = "complex" if param.is_complex() else str(param.dtype)
                raise TypeError(
                    f"{type(self).__name__} needs real floating-point parameters, got {kind}: "
                    "optimize torch.view_as_real(parameter) instead of a complex one"
                )
            if param.device != device:
                raise ValueError(
                    f"all parameters must be on one device, got {device} and {param.device}: "
                    "one step size is chosen from the loss and the gradient of all of them"
                )

    def __getstate__(self) -> Group:
        return {**super().__getstate__(), "_outcome": self._outcome}

    def __setstate__(self, state: Group) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in self.defaults.items():
                group.setdefault(name, default)

    def load_state_dict(self, state_dict: Group) -> None:
        """Load what :meth:`state_dict` returned; the run then goes on as if uninterrupted."""
        super().load_state_dict(state_dict)
        # torch casts floating-point state to the parameter's format, which would round the
        # float32 displacement of a half-precision parameter.
        saved_ids = [i for group in state_dict["param_groups"] for i in group["params"]]
        for saved_id, param in zip(saved_ids, self._all_params, strict=True):
            saved = state_dict["state"].get(saved_id, {}).get("displacement")
            if saved is not None and param.dtype != state_dtype(param.dtype):
                self.state[param]["displacement"] = saved.detach().to(
                    device=param.device, dtype=state_dtype(param.dtype), copy=True
                )
