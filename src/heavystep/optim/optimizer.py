"""The torch driver: one optimizer for every method of the registry.

A step reads from top to bottom: options, loss, measure, decide, update, diagnostics.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from math import inf
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import ParamsT

from heavystep.methods import Method
from heavystep.optim.closure import (
    Buffers,
    Closure,
    TrialPoints,
    checked_buffers,
    evaluate_with_gradients,
)
from heavystep.optim.decide import decide, decide_by_trials, device_memory
from heavystep.optim.diagnostics import NOTHING_TO_TRAIN, Watch
from heavystep.optim.info import StepInfo
from heavystep.optim.measure import (
    Measure,
    checked_loss,
    coarsest_eps,
    decay_of,
    gathered,
    growth_of_rounding,
    rates_are_in_range,
    reads_for_free,
)
from heavystep.optim.options import (
    Group,
    check_groups,
    check_loaded,
    check_options,
    check_params,
    checked_bound,
    common_options,
    foreign_names,
    keep_wide,
    option_names,
    plain_numbers,
    with_lr_of_groups,
)
from heavystep.optim.update import Active
from heavystep.rules import Search, Seen


class RuleOptimizer(Optimizer):
    """An optimizer whose ``method`` says how the step is chosen and how it moves the parameters.

    One step size for the whole parameter vector. Options and the memory of the rule are entries of
    ``param_groups``; the state of a parameter is the buffer of the momentum form, and what the
    diagonal remembers if there is one.
    """

    method: Method
    """The row of the registry."""

    def __init__(
        self, params: ParamsT, options: Mapping[str, Any], process_group: Any = None,
        buffers: Buffers | None = None,
    ) -> None:  # fmt: skip
        self._measure = Measure(process_group, params)
        params, given = with_lr_of_groups(params, plain_numbers(options))
        common = {o.name: given.pop(o.name, o.default) for o in common_options(self.method)}
        defaults = {**self.method.complete(given), **common, **self.method.rule.memory, "step": 0.0}
        check_options(self.method, defaults)
        self._names = option_names(self.method)
        # A compiled step cannot set an attribute, and wrappers may hold the same objects.
        self._handed_over: list[Tensor] = []
        """The sum of the losses whose gradients add up in ``p.grad``, if any was handed over."""
        self._outcome: dict[str, Any] = {}
        self._buffers: Callable[[], Iterable[Tensor]] = checked_buffers(buffers)
        self._begin()
        super().__init__(params, defaults)

    def _begin(self) -> None:
        """Nothing is known yet of the run that follows."""
        self._copies: list[Tensor] = []
        self._watched = Watch()
        self._resolved: dict[str, Any] = {"options": []}
        self._active: list[Active] = []
        self._states: list[int] = []

    @property
    def info(self) -> StepInfo | None:
        """Report of the last step; None before the first one."""
        return StepInfo(**self._outcome) if self._outcome else None

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
        grads_wanted = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)  # a context manager takes ten calls
        try:
            if closure is None and loss is None and self._only_wants_state():
                self._take_active()
                if not self.method.rule.searches and not self._measure.near:
                    device_memory(self.method.rule, self.param_groups[0], self._measure)
                return None
            self._check_arguments(closure, loss, lower_bound)
            self._resolve()
            bound = None if lower_bound is None else checked_bound(lower_bound)
            if self.method.rule.searches:
                return self._search(closure, bound)
            if closure is not None:
                loss, _ = self._call(closure)
            elif self._handed_over:
                loss = self._handed_over.pop()
            elif loss is not None:
                loss = checked_loss(loss, "loss")
                loss = loss.detach() if isinstance(loss, Tensor) else loss
            self._take_active()
            if closure is None and self._watched.young and not torch.compiler.is_compiling():
                for grad in [grad for active in self._active for grad in active.grads][:1]:
                    self._watched.see_gradient(grad)
            self._apply(*self._decide(loss, bound))
            return loss
        finally:
            torch._C._set_grad_enabled(grads_wanted)

    def _check_arguments(self, closure: Any, loss: Any, lower_bound: Any) -> None:
        """Refuse a call of ``step`` from which the rule does not learn, once, what it reads."""
        rule, name = self.method.rule, type(self).__name__
        handed_over = bool(self._handed_over)
        if lower_bound is not None and "lower_bound" not in rule.reads:
            raise TypeError(f"lower_bound means nothing to {name}, whose step does not use it")
        if closure is None:
            if rule.searches:
                raise self._needs_closure()
            if loss is None and not handed_over and "loss" in rule.reads:
                raise ValueError(
                    f"{name}.step() needs the loss: call step(loss=loss) after loss.backward(), or "
                    "step(closure), or where a framework calls step(), hand_over(loss) before (see "
                    "heavystep.integrations); heavystep.attach(model) where the model returns the "
                    "loss"
                )
        elif loss is not None:
            raise ValueError("step() takes a closure or loss=, not both")
        elif not callable(closure):
            if rule.searches:
                raise self._needs_closure()
            raise TypeError(
                f"closure must be callable, got {closure!r}: pass the loss as step(loss=loss)"
            )
        if loss is not None and handed_over:
            raise ValueError("step() takes loss= or what was handed over, not both")

    def _needs_closure(self) -> TypeError:
        return TypeError(
            f"{type(self).__name__} evaluates the loss at trial points and needs "
            "step(closure); SHBPolyak works with step(loss=loss) and hand_over(loss)"
        )

    def _resolve(self) -> None:
        """Check the options, and resolve them for the rule, if they are not what they were."""
        options = list(map(itemgetter(*self._names), self.param_groups))
        if options == self._resolved["options"]:  # the same tensors are equal at once
            return
        check_groups(self.method, self.param_groups)
        self._measure.compare_anew()
        metric = self.param_groups[0].get("diagonal")
        if self.state and metric != self._resolved.get("metric", metric):
            raise ValueError(f"diagonal must stay what it was when training began, got {metric!r}")
        constants = self.method.rule.constants_of(self.param_groups[0])
        tensors = any(isinstance(group["lr"], Tensor) for group in self.param_groups)
        (usual,) = (option.default for option in self.method.options if option.name == "lr")
        if usual == 1.0 and not torch.compiler.is_compiling():  # otherwise lr is the step itself
            self._watched.see_rates(self.param_groups, bool(self.state))
        self._resolved.update(options=options, constants=constants, metric=metric, tensors=tensors)

    def _take_active(self) -> None:
        """The parameters that have a gradient, with what is kept of them."""
        measure, groups, state = self._measure, self.param_groups, self.state
        lasts = len(self._active) == len(groups)
        for active in self._active:
            lasts = lasts and active.refresh()
        if not lasts or self._states != list(map(id, state.values())):
            measure.look_at(self._all_params)
            measure.compare_anew()
            self._active = [Active(self.method, g, groups, state, measure) for g in groups]
            self._states = list(map(id, state.values()))
            if not any(active.params for active in self._active):
                self._watched.tell(NOTHING_TO_TRAIN)
        measure.near = reads_for_free(measure.device)

    def _seen(self, known: Any, bound: Any, products: Mapping[str, Any], loss: Any) -> Seen:
        """The rule's input: the objective, its lower bound and the inner products."""
        group = self.param_groups[0]
        eps: Any = 0.0
        if "loss_eps" in self.method.rule.reads:
            eps = group.get("loss_eps")
            if eps is None:
                eps = coarsest_eps(self._places, loss, self._measure.device)
            eps *= growth_of_rounding(known, group.get("example_loss", 0.0))
        low = group.get("lower_bound") if bound is None else bound
        return Seen(known, -inf if low is None else low, loss_eps=eps, **products)

    def _decide(self, loss: Any, bound: Any) -> tuple[Search, Seen, Any]:
        """The decision of a closed form, what it saw, and the objective if a loss was given."""
        rule, groups, measure = self.method.rule, self.param_groups, self._measure
        products, value, bound = measure.batch(rule, self._active, groups, self._names, loss, bound)
        if measure.near:
            value = None if value is None else value.item()
            bound = None if bound is None else float(bound)
            products = dict(zip(products, map(float, products.values()), strict=True))
        elif isinstance(bound, Tensor):
            bound = bound.to(measure.device, measure.dtype)
        seen = self._seen(0.0 if value is None else value, bound, products, loss)
        usable = not self._resolved["tensors"] or rates_are_in_range(groups, measure)
        later = "size" in rule.reads and "size" not in products
        size = partial(measure.size, self._active) if later else None
        constants = self._resolved["constants"]
        return decide(rule, constants, groups[0], seen, usable, measure, size), seen, value

    def _search(self, closure: Any, bound: Any) -> Any:
        """Evaluate the batch, then search along its gradient or another direction."""
        measure = self._measure
        if isinstance(bound, Tensor):
            bound = checked_bound(bound.item())
        trials = TrialPoints(closure, self._all_params, self._buffers(), self._copies)
        returned, calls_backward = self._call(closure)
        trials.first_evaluation_done(calls_backward)
        self._take_active()
        products, value, bound = measure.batch(
            self.method.rule, self._active, self.param_groups, self._names, returned, bound
        )
        facts = torch.stack([measure.scalar(each) for each in (value, *products.values())])
        known, *numbers = facts.tolist()
        bound = None if bound is None else float(bound)
        seen = self._seen(known, bound, dict(zip(products, numbers, strict=True)), returned)

        def ready(search: Search) -> AbstractContextManager[object]:
            if not search.active:
                return nullcontext()
            return trials.along(self._places, self._ways(search.momentum))

        def loss_at(trial: float) -> float:
            return measure.objective(trials.loss_at(trial), self._active).item()

        search = self._decide_by_trials(seen, ready, loss_at)
        if not search.accepted:
            trials.forget_buffers()
        self._apply(search, seen, seen.loss)
        return returned

    def _decide_by_trials(
        self, seen: Seen, ready: Any, loss_at: Callable[[float], float]
    ) -> Search:
        largest = min((torch.finfo(place.dtype).max for place in self._places), default=inf)
        usable = rates_are_in_range(self.param_groups, self._measure)
        known = self.method.rule, self._resolved["constants"], self.param_groups[0], seen, usable
        return decide_by_trials(*known, largest, ready, loss_at, self._watched.tell)

    def _ways(self, momentum: Any) -> list[Tensor]:
        """The directions of a line search."""
        return [way for active in self._active for way in active.ways(momentum)]

    def _apply(self, search: Search, seen: Seen, loss: Any) -> None:
        """Take the step that was decided, and report it.

        Last of all: what goes wrong before leaves parameters and state as they were.
        """
        if search.accepted is not False:
            for active in self._active:
                if active.params:
                    self._move(active, search, not isinstance(search.accepted, Tensor))
        self._report(search, seen, loss)

    def _move(self, active: Active, search: Search, on_host: bool) -> None:
        """Move the parameters of one group."""
        group, form = active.group, self.method.form
        rate: Any = group["lr"]
        momentum = group["momentum"] if search.momentum is None else search.momentum
        decay = decay_of(group, "decoupled")
        shrink: Any = None
        amount = search.step if search.decay is None else search.decay
        if on_host and not self.method.rule.searches:
            # Products in the format of the parameters, as on a device.
            held = self._measure.held
            rate = rate.item() if isinstance(rate, Tensor) else held(rate)
            step = held(rate * search.step)
            if decay:
                shrink = held(form.shrink(held(held(rate * amount) * held(decay))))
        else:
            step = rate * search.step
            step = step.item() if on_host and isinstance(step, Tensor) else step
            if decay:
                shrink = form.shrink(rate * amount * decay)
        active.move(step, momentum, search.weight, shrink, search.accepted)

    def _report(self, search: Search, seen: Seen, loss: Any) -> None:
        """Report the step in ``info``."""
        accepted, group, outcome = search.accepted, self.param_groups[0], self._outcome
        bound, rate = seen.lower_bound, group["lr"]
        if isinstance(rate, Tensor) and not isinstance(accepted, Tensor):
            rate = rate.item()
        taken = rate * search.step
        largest = getattr(self._resolved["constants"], "max_step", inf)
        if isinstance(accepted, Tensor):
            group["step"] = torch.where(accepted, taken, group.get("step", 0.0))
        elif accepted:  # a refused batch changes no state
            group["step"] = taken
        outcome.update(
            step=taken, base_step=search.step, loss=loss,
            grad_sqnorm=seen.grad_sqnorm, trials=search.trials, accepted=accepted,
            capped=search.capped, max_step=None if largest == inf else largest,
            lower_bound=bound if isinstance(bound, Tensor) or bound != -inf else None,
        )  # fmt: skip
        if not isinstance(accepted, Tensor) or not torch.compiler.is_compiling():
            self._watch()

    def _watch(self) -> None:
        """Look at the run, now and then."""
        rule, group = self.method.rule, self.param_groups[0]
        self._watched.see(self._outcome, self._measure.plain, rule, group)

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
            raise self._needs_closure()
        value = gathered(checked_loss(loss, "the loss that is handed over"))
        self._measure.look_at(self._all_params)
        value, handed_over = self._measure.scalar(value), self._handed_over
        # Of a DTensor FSDP keeps the gradient to itself until micro-batches are complete.
        params = self._all_params
        if handed_over and all(p.grad is None and not hasattr(p, "to_local") for p in params):
            raise ValueError(
                "a loss was handed over before, and its gradients are gone: hand over what "
                "backward() is called on, once, and zero gradients with the optimizer's zero_grad()"
            )
        # A new tensor each time: a closure sees by it that a loss was handed over.
        handed_over[:] = [handed_over[0] + value] if handed_over else [value.clone()]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Zero the gradients and drop the losses that were handed over with them.

        Args:
            set_to_none: whether gradients become None instead of 0.
        """
        self._handed_over.clear()
        self._watched.zeroed = True
        super().zero_grad(set_to_none)

    def add_param_group(self, param_group: Group) -> None:
        """Add a parameter group; a refused one leaves the optimizer as it was."""
        if isinstance(param_group, dict):
            param_group = plain_numbers(param_group)
        super().add_param_group(param_group)
        added = self.param_groups[-1]
        try:
            if foreign := foreign_names(self.method, added):
                names = ", ".join(map(repr, foreign))
                raise ValueError(
                    f"{self.method.name} has no option {names}: leave it out of the parameter group"
                )
            check_options(self.method, added)
            first = self._all_params[0] if self._all_params else None
            device = None if first is None else first.device
            check_params(type(self).__name__, added["params"], device)
            check_groups(self.method, self.param_groups)
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise

    def _call(self, closure: Closure) -> tuple[Any, bool]:
        """The closure's loss, with its gradient in ``p.grad``; and whether it called backward."""
        rule = self.method.rule
        return evaluate_with_gradients(
            closure, self._all_params, self._handed_over, rule.searches, "loss" in rule.reads,
            self._watched.tell,
        )  # fmt: skip

    def _only_wants_state(self) -> bool:
        """True if a step of length 0 is asked for before the first one.

        torch.distributed.checkpoint does so, without a loss, to find out what state there is.
        """
        # In this order: a compiler that looks at the state first compiles anew at each step.
        begun = bool(self._handed_over or self.state)
        return not begun and all(float(group["lr"]) == 0.0 for group in self.param_groups)

    @property
    def _all_params(self) -> list[Tensor]:
        return [param for group in self.param_groups for param in group["params"]]

    @property
    def _places(self) -> list[Tensor]:
        """This process's part of the parameters that have a gradient."""
        return [place for active in self._active for place in active.places]

    def __repr__(self) -> str:
        name, title, groups = type(self).__name__, self.method.title, self.param_groups
        told = []
        for option in (*self.method.options, *common_options(self.method)):
            values = [group.get(option.name) for group in groups]
            if option.name == "lr" or any(value != option.default for value in values):
                told.append(f"{option.name}={' / '.join(dict.fromkeys(map(repr, values)))}")
        count = sum(param.numel() for param in self._all_params)
        known = self._outcome or self.state
        last = f"{float(groups[0]['step']):g}" if known else "none yet"
        lines = [
            name if title == name else f"{name} ({title})",
            f"  options: {', '.join(told)}",
            f"  parameters: {count:,} in {len(groups)} group(s)",
            f"  last step: {last}",
        ]
        return "\n".join(lines)

    def __getstate__(self) -> Group:
        # A pickled parameter leaves its gradient behind, and with it the losses handed over.
        kept = {n: getattr(self, n) for n in ("_outcome", "_measure", "_buffers", "_names")}
        return {**super().__getstate__(), **kept}

    def __setstate__(self, state: Group) -> None:
        # The load has changed nothing yet, and its hooks have been called.
        check_loaded(self.method, state["state"], state["param_groups"])
        if "_measure" in state:  # a copy, not a load
            self._handed_over = []
        super().__setstate__(state)
        self._begin()
        self._measure.compare_anew(loaded=True)

    def load_state_dict(self, state_dict: Group) -> None:
        """Load what :meth:`state_dict` returned; training then goes on as if uninterrupted.

        Raises:
            ValueError: it is no state of this method, or does not fit the parameters.
        """
        super().load_state_dict(state_dict)
        keep_wide(state_dict, self._all_params, self.state)
