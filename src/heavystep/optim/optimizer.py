"""The torch driver: one optimizer for every method of the registry."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import ParamsT

from heavystep.methods import Method
from heavystep.optim.arguments import check_arguments, needs_closure
from heavystep.optim.closures.closure import Closure, checked_loss, evaluate_with_gradients
from heavystep.optim.closures.handed_over import HandedOver
from heavystep.optim.closures.trials import Buffers, ParameterCopies, TrialPoints, checked_buffers
from heavystep.optim.committing import held_back
from heavystep.optim.deciding import (
    Decision,
    HostRule,
    common_bound,
    decide_on_device,
    device_memory,
    host_numbers,
)
from heavystep.optim.groups import (
    Group,
    check_groups,
    check_options,
    check_params,
    common_options,
    plain_numbers,
    unchanged,
    with_lr_of_groups,
)
from heavystep.optim.info import StepInfo
from heavystep.optim.loading import complete_loaded
from heavystep.optim.ranks import Ranks, whole
from heavystep.optim.sample import Active, Measure, Sample, active_of
from heavystep.optim.speaking import NOTHING_TO_TRAIN, warn_caller
from heavystep.optim.state import apply_step, keep_wide, make_state, vectors_of, ways_of
from heavystep.optim.stretching import stretched
from heavystep.optim.watching import Watch


class RuleOptimizer(Optimizer):
    """An optimizer whose ``method`` says how the step is chosen and how it moves the parameters.

    One step size for the whole parameter vector. Options and the memory of the rule are entries of
    ``param_groups``; the state of a parameter is the buffer of the momentum form, and what the
    diagonal remembers if there is one.

    Args:
        params: parameters, or dicts that define parameter groups.
        options: those of the method, ``weight_decay``, ``decay`` and ``foreach``.
        process_group: the processes that train one model together.
        buffers: what a forward pass changes in place, for methods that search.
    """

    method: Method
    """The row of the registry; of an optimizer, with the rule that its options ask for."""

    def __init__(
        self,
        params: ParamsT,
        options: Mapping[str, Any],
        process_group: Any = None,
        buffers: Buffers | None = None,
    ) -> None:
        params, given = with_lr_of_groups(params, plain_numbers(options))
        common = {o.name: given.pop(o.name, o.default) for o in common_options(self.method)}
        defaults = self._chosen({**self.method.complete(given), **common})
        check_options(self.method, defaults)
        self._ranks = Ranks(process_group)
        self._handed_over = HandedOver()
        self._buffers: Callable[[], Iterable[Tensor]] = checked_buffers(buffers)
        self._copies = ParameterCopies()
        self._watched = Watch()
        # In dicts, because a compiled step cannot set an attribute of its optimizer.
        self._resolved: dict[str, Any] = {}
        self._outcome: dict[str, Any] = {}
        super().__init__(params, defaults)

    def _chosen(self, options: Group) -> Group:
        """Take the rule that the options ask for; gives the defaults of groups."""
        self.method = type(self).method.chosen(options)
        used = (*self.method.all_options, *common_options(self.method))
        self._agreeing = {option.name for option in used}
        return {**{name: options[name] for name in self._agreeing}, **self.method.rule.memory}

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
            lower_bound: lower bound of this batch's loss, instead of the optimizer's; see
                :mod:`heavystep.lower_bounds`. Processes that train together all give theirs.

        Returns:
            The loss, detached.
        """
        if closure is None and loss is None and self._only_wants_state():
            self._make_state()
            return None
        check_arguments(self, closure, loss, lower_bound, handed_over=bool(self._handed_over))
        self._check_groups()
        lower_bound = common_bound(lower_bound, self._measure())
        if self.method.rule.searches:
            assert closure is not None
            returned, sample, decide = self._search(closure, lower_bound)
        else:
            returned = self._loss_of(closure, loss)
            sample = self._sample(returned)
            measure, rule = self._measure(), self.method.rule
            decide = partial(decide_on_device, rule, *self._numbers, sample, measure, lower_bound)
        with held_back():
            decision = decide()
            self._apply(sample, decision)
            self._report(decision)
        return returned

    def _search(self, closure: Closure, lower_bound: Any) -> tuple[Any, Sample, partial[Decision]]:
        """Evaluate the batch, then search along its gradient or another direction."""
        trials = TrialPoints(closure, self._all_params, self._buffers(), self._copies)
        returned, calls_backward = self._call(closure)
        self._watched.about_to_search(self._all_params, self._buffers())
        trials.first_evaluation_done(calls_backward)
        sample, measure = self._sample(returned), self._measure()
        rule = HostRule(self.method.rule, *self._numbers, sample)
        seen = rule.seen(host_numbers(sample).tolist(), lower_bound)
        search = rule.begun(seen)

        def trial_loss(trial: float) -> float:
            share = trials.loss_at(trial, lambda loss: measure.objective_share(loss, sample.groups))
            return measure.objective(share).item()

        if search.active:
            ways = ways_of(self.method, sample, self.state, search.momentum)
            finish = partial(rule.finished, seen, search, trial_loss)
            search = trials.along(sample.params, ways, finish)
        if not search.accepted:
            trials.forget_batch()
        return returned, sample, partial(rule.conclude, seen, search)

    def hand_over(self, loss: Any) -> None:
        """Hand a loss over for the next ``step()``, as ``backward()`` does with its gradient.

        Losses add up as gradients do, until a step without ``loss=`` uses their sum or
        :meth:`zero_grad` drops it. So micro-batches come out right, and so do frameworks and
        ``GradScaler``, which call ``step()`` themselves. Nothing waits for the device. A line
        search refuses it, since it evaluates more than one loss.

        Args:
            loss: what ``backward()`` is called on, once, before or after; with a GradScaler the
                unscaled loss.
        """
        if self.method.rule.searches:
            raise needs_closure(self)
        value = whole(checked_loss(loss, "the loss that is handed over"))
        self._handed_over.refuse_if_lost(self._all_params)
        self._handed_over.add(self._measure().scalar(value))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Zero the gradients and drop the losses that were handed over with them.

        Args:
            set_to_none: whether gradients become None instead of 0.
        """
        self._handed_over.drop()
        super().zero_grad(set_to_none)

    def add_param_group(self, param_group: Group) -> None:
        """Add a parameter group; a refused one leaves the optimizer as it was."""
        if isinstance(param_group, dict):
            param_group = plain_numbers(param_group)
        super().add_param_group(param_group)
        added = self.param_groups[-1]
        try:
            check_options(self.method, added)
            check_params(type(self).__name__, added["params"], self._measure().device)
            self._check_groups()
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise

    def _check_groups(self) -> None:
        """Check the options, and resolve them for the rule, if they are not what they were."""
        options = [group[name] for group in self.param_groups for name in self._agreeing]
        if not unchanged(options, self._resolved.get("options", [])):
            check_groups(self.method, self.param_groups, self._agreeing)
            rule = self.method.rule
            self._resolved.update(
                options=options, constants=rule.constants_of(self.param_groups[0])
            )
            self._ranks.agreement.on(self.param_groups, self._agreeing, at_once=rule.searches)

    @property
    def _numbers(self) -> tuple[Any, Group]:
        """The constants of the rule, and the group that holds its memory."""
        return self._resolved["constants"], self.param_groups[0]

    def _loss_of(self, closure: Closure | None, loss: Any) -> Any:
        """The loss of the batch, from the arguments of ``step``."""
        if closure is not None:
            return self._call(closure)[0]
        if self._handed_over:
            return self._handed_over.take()
        loss = None if loss is None else checked_loss(loss, "loss")
        return loss.detach() if isinstance(loss, Tensor) else loss

    def _call(self, closure: Closure) -> tuple[Any, bool]:
        """The closure's loss, with its gradient in ``p.grad``; and whether it called backward."""
        # An autocast around the training loop keeps casts of the parameters before the last step.
        torch.clear_autocast_cache()
        rule = self.method.rule
        wanted = "loss" in rule.reads
        found = evaluate_with_gradients(
            closure, self._all_params, self._handed_over, weigh=rule.searches, wanted=wanted
        )
        if found.part_only and wanted:
            found.tell_of_earlier_parts()
        return found.loss, found.calls_backward

    def _sample(self, loss: Any) -> Sample:
        groups = [self._active(group) for group in self.param_groups]
        method, state, foreach = self.method, self.state, self._foreach
        stretches = [stretched(method, active, state, foreach) for active in groups]
        vectors = vectors_of(method, groups, state, stretches)
        sample = self._measure().sample(groups, loss, vectors, stretches)
        if not any(active.grads for active in groups):
            warn_caller(NOTHING_TO_TRAIN)
        return sample

    def _active(self, group: Group) -> Active:
        return active_of(group, type(self).__name__, self.method, self.state, self.param_groups)

    def _apply(self, sample: Sample, decision: Decision) -> None:
        apply_step(self.method, sample, decision, self.state, self._foreach)

    def _report(self, decision: Decision) -> None:
        self._outcome.update(decision.outcome(self.param_groups[0]))
        self._watched.see(self._outcome, self.method.rule, self.param_groups[0])

    def _only_wants_state(self) -> bool:
        """Whether a step of length 0 is asked for before the first one.

        torch.distributed.checkpoint does so, without a loss, to find out what state there is.
        """
        begun = bool(self._handed_over or self.state)
        return not begun and all(float(group["lr"]) == 0.0 for group in self.param_groups)

    def _make_state(self) -> None:
        """The state that a step finds or makes."""
        make_state(self.method, [self._active(group) for group in self.param_groups], self.state)
        if not self.method.rule.searches:
            device_memory(self.method.rule, self.param_groups[0], self._measure())

    def _measure(self) -> Measure:
        return Measure(self._ranks, self._all_params, self._foreach)

    @property
    def _all_params(self) -> list[Tensor]:
        return [param for group in self.param_groups for param in group["params"]]

    @property
    def _foreach(self) -> bool:
        return self.param_groups[0]["foreach"] is not False

    def __getstate__(self) -> Group:
        # A pickled parameter leaves its gradient behind, and with it the losses handed over.
        kept = {name: getattr(self, name) for name in ("_outcome", "_ranks", "_buffers")}
        fresh = {"_handed_over": HandedOver(), "_copies": ParameterCopies(), "_resolved": {}}
        return {**super().__getstate__(), **kept, **fresh, "_watched": Watch()}

    def __setstate__(self, state: Group) -> None:
        # Here a load has changed nothing yet, and its hooks have been called.
        defaults = state.get("defaults") or self.defaults
        options = {**defaults, **state["param_groups"][0]}
        method = type(self).method.chosen(options)
        complete_loaded(method, state["state"], state["param_groups"])
        super().__setstate__(state)
        self.defaults = {**defaults, **self._chosen(options)}

    def load_state_dict(self, state_dict: Group) -> None:
        """Load what :meth:`state_dict` returned; the run then goes on as if uninterrupted."""
        super().load_state_dict(state_dict)
        keep_wide(state_dict, self._all_params, self.state)
