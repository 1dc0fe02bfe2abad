"""The heavy-ball iteration that all optimizers share, and the torch contract around it."""

import warnings
from abc import abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from heavystep.optim.closures.closure import Closure, checked_loss, evaluate_with_gradients
from heavystep.optim.info import StepInfo
from heavystep.optim.options import Group, plain_numbers
from heavystep.optim.ranks import Ranks, local, whole
from heavystep.optim.sample import Active, Decision, Sample
from heavystep.optim.shapes import check_displacements, has_shape_of, misshapen
from heavystep.optim.takes_losses import TakesLosses
from heavystep.optim.torch_primitives import as_scalar
from heavystep.optim.vectors import Update, heavy_ball, state_dtype
from heavystep.rules import where


class HeavyBall(TakesLosses):
    r"""Stochastic heavy ball, one step size for the whole parameter vector.

    .. math:: \theta_{k+1} = \theta_k - \gamma_k g_k + \beta_k (\theta_k - \theta_{k-1}),
              \qquad \theta_{-1} = \theta_0

    The state of a parameter is its displacement :math:`\theta_k - \theta_{k-1}`, which is
    not the buffer of ``torch.optim.SGD`` once the step varies. A subclass chooses
    :math:`\gamma_k`; everything else is here.
    """

    _uses_loss: ClassVar[bool] = True
    """Whether the step depends on the loss."""
    _searches: ClassVar[bool] = False
    """Whether the loss is evaluated at other points."""

    def __init__(self, params: ParamsT, defaults: Group, process_group: Any = None) -> None:
        defaults = plain_numbers(defaults)
        self._ranks = Ranks(process_group)
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
                accumulated as a mean. Without either, what was given to :meth:`hand_over`.
            lower_bound: lower bound of this batch's loss, instead of the optimizer's.

        Returns:
            The loss, detached.
        """
        if closure is None and loss is None and self._only_wants_state():
            self._make_state()
            return None
        self._one_source(closure, loss)
        self._check_groups()
        returned, sample = self._evaluate(closure, loss)
        decision = self._decide(sample, lower_bound)
        self._apply(sample, decision)
        self._report(decision)
        return returned

    @abstractmethod
    def _decide(self, sample: Sample, lower_bound: Any) -> Decision:
        """Choose the step for this batch."""

    def _evaluate(self, closure: Closure | None, loss: Any) -> tuple[Any, Sample]:
        """Loss and gradient of the batch, from the arguments of ``step``."""
        if closure is not None:
            returned, _ = self._call(closure)
        elif self._handed_over:
            returned = self._handed_over.take()
        else:
            returned = None if loss is None else checked_loss(loss, "loss")
            returned = returned.detach() if isinstance(returned, Tensor) else returned
        return returned, self._sample(returned)

    def _only_wants_state(self) -> bool:
        """Whether a step of length 0 is asked for before the first one.

        torch.distributed.checkpoint does so, without a loss, to find out what state there is.
        """
        if self._handed_over or self.state:
            return False
        return all(float(group["lr"]) == 0.0 for group in self.param_groups)

    def _make_state(self) -> None:
        """The state that a step finds or makes."""
        for group in self.param_groups:
            self._displacements(self._active(group))

    def _one_source(self, closure: Closure | None, loss: Any) -> None:
        if closure is None and loss is None and not self._handed_over:
            raise ValueError(
                f"{type(self).__name__}.step() needs the loss: call step(loss=loss) after "
                "loss.backward(), or step(closure), or where a framework calls step(), "
                "hand_over(loss) before (see heavystep.integrations)"
            )
        if loss is not None and self._handed_over:
            raise ValueError("step() takes loss= or what was handed over, not both")
        if closure is not None and loss is not None:
            raise ValueError("step() takes a closure or loss=, not both")
        if closure is not None and not callable(closure):
            raise TypeError(
                f"closure must be callable, got {closure!r}: pass the loss as step(loss=loss)"
            )

    def _call(self, closure: Closure) -> tuple[Any, bool]:
        """The closure's loss, with its gradient in ``p.grad``; and whether it called backward."""
        # An autocast around the training loop keeps casts of the parameters before the last step.
        torch.clear_autocast_cache()
        found = evaluate_with_gradients(
            closure, self._all_params, self._handed_over, weigh=self._searches
        )
        if found.part_only and self._uses_loss:
            self._tell_of_earlier_parts(found.leftover)
        return found.loss, found.calls_backward

    def _tell_of_earlier_parts(self, leftover: Tensor | None) -> None:
        """A closure added to gradients that were there, which may be zero if nobody looked."""
        text = (
            "the closure added to gradients that were there, and its loss does not belong to all "
            "of them: call zero_grad() in it, or hand_over() every loss (in Lightning: "
            "callbacks=[HandOverLoss()] of heavystep.integrations.lightning)"
        )
        if leftover is None:
            warnings.warn(text, RuntimeWarning, stacklevel=7)  # the line that calls step()
        elif leftover.item() != 0.0:
            raise ValueError(text)

    def _sample(self, loss: Any) -> Sample:
        groups = [self._active(group) for group in self.param_groups]
        dtype, device = self._scalar_format()
        grads = [grad for active in groups for grad in active.grads]
        sqnorm = as_scalar(self._ranks.sqnorm_share(grads, dtype, self._foreach), dtype, device)
        value = None
        if loss is None:
            (sqnorm,) = self._ranks.total(sqnorm)
        else:
            share = self._loss_share(loss, groups, dtype, device)
            value, sqnorm = self._ranks.total(share, sqnorm)
        if not grads:
            warnings.warn(
                "no parameter has a gradient and nothing was updated: was backward() called, "
                "and is anything left to train?",
                RuntimeWarning,
                stacklevel=6,  # the line that calls step()
            )
        has_format = isinstance(loss, Tensor) and loss.is_floating_point()
        loss_dtype = loss.dtype if has_format and grads else dtype
        return Sample(groups, value, sqnorm, loss_dtype)

    def _loss_share(
        self, loss: Any, groups: list[Active], dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        """What this process adds to the objective: its part of the mean loss and of the decay."""
        share = self._ranks.share(as_scalar(whole(loss), dtype, device))
        return share + self._decay_term(groups, dtype)

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
            if not has_shape_of(param, grad):
                raise misshapen("gradient", grad, param, self.param_groups)
            params.append(param)
            grads.append(grad)
        check_displacements(params, self.state, self.param_groups)
        if group["decay"] == "objective" and group["weight_decay"] and params:
            grads = list(torch._foreach_add(grads, params, alpha=group["weight_decay"]))
        return Active(group, params, grads)

    def _decay_term(self, groups: list[Active], dtype: torch.dtype) -> Tensor | float:
        """This process's part of (lambda/2) ||theta||^2, at the present parameters."""
        total: Tensor | float = 0.0
        for group, params, _ in groups:
            if params and group["decay"] == "objective" and group["weight_decay"]:
                sqnorm = self._ranks.sqnorm_share(params, dtype, self._foreach)
                total = total + 0.5 * group["weight_decay"] * sqnorm
        return total

    def _apply(self, sample: Sample, decision: Decision) -> None:
        accepted = decision.accepted
        if accepted is False:
            return
        if accepted is True:
            accepted = torch.ones((), dtype=torch.bool, device=sample.grad_sqnorm.device)
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
        displacements = self._displacements(active)
        heavy_ball(active.places, active.slopes, displacements, update, self._foreach)

    def _report(self, decision: Decision) -> None:
        base_step, grad_sqnorm = decision.base_step, decision.grad_sqnorm
        if isinstance(grad_sqnorm, Tensor):
            base_step = as_scalar(base_step, grad_sqnorm.dtype, grad_sqnorm.device)
        base_step = where(decision.accepted, base_step, 0.0)
        self._outcome.update(decision._asdict())
        self._outcome.update(base_step=base_step, step=self.param_groups[0]["lr"] * base_step)

    def _displacements(self, active: Active) -> list[Tensor] | None:
        """theta_k - theta_{k-1} of each parameter; None while there is no momentum."""
        momentum = active.group["momentum"]
        if not momentum and not any(self.state.get(p) for p in active.params):
            return None
        displacements = []
        for param in active.params:
            state = self.state[param]
            displacement = state.get("displacement")
            if displacement is None or not _fits(displacement, param):
                dtype = state_dtype(param.dtype)
                if displacement is None:
                    displacement = torch.zeros_like(param, dtype=dtype)
                else:  # the model was moved
                    displacement = displacement.to(param.device, dtype)
                state["displacement"] = displacement
            displacements.append(local(displacement))
        return displacements

    @property
    def _foreach(self) -> bool:
        return self.param_groups[0]["foreach"] is not False

    def __getstate__(self) -> Group:
        return {**super().__getstate__(), "_outcome": self._outcome, "_ranks": self._ranks}

    def __setstate__(self, state: Group) -> None:
        # Here a load has changed nothing yet, and its hooks have been called.
        groups = state["param_groups"]
        params = (param for group in groups for param in group["params"])
        check_displacements(params, state["state"], groups)
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


def _fits(displacement: Tensor, param: Tensor) -> bool:
    """Whether a displacement has the device and the format that its parameter asks for."""
    same_device = displacement.get_device() == param.get_device()
    return same_device and displacement.dtype == state_dtype(param.dtype)
