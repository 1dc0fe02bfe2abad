"""Which runs a comparison needs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from heavystep import validation
from heavystep.compare.grid import centre_of, grid_of, needed, options_at
from heavystep.compare.problems import Compared, Size, problem_of
from heavystep.methods import METHODS, Method, check_name
from heavystep.methods.named import read, tuned, written
from heavystep.paper.appendix_e import SCALING
from heavystep.sweeps.runs import Runs

SIZES = ("seeds", "iterations", "epochs", "batch_size")
"""What a user may choose of the size."""


@dataclass(frozen=True)
class Entry:
    """A method on a problem, with each constant of its grid."""

    method: str
    """Its name, with the options that were given."""
    main: str
    """The name of its main constant."""
    constants: tuple[float, ...]
    runs: tuple[Runs, ...]
    """One for each constant."""
    centre: int
    """The place of the default among them."""


@dataclass(frozen=True)
class Plan:
    """A comparison on one problem."""

    problem: Compared
    size: Size
    entries: tuple[Entry, ...]
    left_out: Mapping[str, str]
    """Methods that cannot run here, with the reason."""

    def runs(self) -> dict[str, Runs]:
        """All runs by their keys."""
        return {run.key(): run for entry in self.entries for run in entry.runs}

    def without(self, failed: Mapping[str, str]) -> "Plan":
        """The same without the methods some of whose runs failed.

        Args:
            failed: reasons by the keys of runs.

        Raises:
            ValueError: no method is left.
        """
        reasons = {
            entry.method: failed[run.key()]
            for entry in self.entries
            for run in entry.runs
            if run.key() in failed
        }
        entries = tuple(entry for entry in self.entries if entry.method not in reasons)
        return _checked(replace(self, entries=entries, left_out={**self.left_out, **reasons}))


def plan(
    problem: str, methods: Iterable[str] = (), *, quick: bool = False, **chosen: int | None
) -> Plan:
    """Find out which runs a comparison needs. This reads the data.

    Args:
        problem: a name, or the path of a LIBSVM file.
        methods: names, perhaps with options (``SHBPolyak:scaling=practical``); none:
            :func:`usual_methods`.
        quick: whether runs are fewer and shorter.
        chosen: ``seeds``, ``iterations`` or ``epochs``, ``batch_size``; None: the usual ones.

    Raises:
        ValueError: a name is unknown, a number out of range, a file is damaged, or no method can
            run on the problem.
        TypeError: a method has no such option.
        OSError: a file is missing.
    """
    known = dict(map(_known, tuple(methods) or usual_methods()))
    for name in SIZES:
        if chosen.get(name) is not None:
            validation.integer(name, chosen[name], least=1)
    found = problem_of(problem)
    size = _size(found, quick, chosen)
    entries, left_out = [], {}
    for name, (method, options) in known.items():
        try:
            entries.append(_entry(found, name, method, options, size))
        except (TypeError, ValueError) as error:
            left_out[name] = str(error)
    return _checked(Plan(found, size, tuple(entries), left_out))


def usual_methods() -> tuple[str, ...]:
    """All that are registered, and the paper's rule of those that have it beside another.

    >>> usual_methods()[-2:]
    ('SHBPolyak:scaling=practical', 'SHBArmijo:scaling=practical')
    """
    paper = (name for name, method in METHODS.items() if SCALING in method.by_scaling)
    return (*METHODS, *(name + written((("scaling", SCALING),)) for name in paper))


def _known(text: str) -> tuple[str, tuple[Method, dict[str, Any]]]:
    """A name in the form that is the same for all ways to write it, its method and its options.

    Raises:
        ValueError: there is no such method, or an option is out of range.
        TypeError: the method has no such option.
    """
    head, given = read(text)
    check_name(head)
    method, options = METHODS[head], dict(given)
    if options:  # without any there is nothing that a user could have got wrong
        method.complete({**needed(tuned(method, options)), **options})
    return head + written(given), (method, options)


def _checked(plan: Plan) -> Plan:
    if not plan.entries:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in plan.left_out.items())
        raise ValueError(f"no method can run on {plan.problem.name}: {reasons}")
    return plan


def _size(problem: Compared, quick: bool, chosen: Mapping[str, Any]) -> Size:
    """The usual size, with what the user has chosen."""
    given = {name: value for name, value in chosen.items() if value is not None}
    epochs = given.pop("epochs", None)
    if epochs is not None and "iterations" in given:
        raise ValueError("give iterations or epochs, not both: they are the same length")
    size = replace(problem.usual(quick=quick), **given)
    batches = problem.batches(size.batch_size)
    return size if epochs is None else replace(size, iterations=epochs * batches)


def _entry(
    problem: Compared, name: str, method: Method, options: Mapping[str, Any], size: Size
) -> Entry:
    """Given options are the defaults around which the main constant is varied."""
    changed = tuned(method, options)
    constants, batches = grid_of(changed), problem.batches(size.batch_size)
    runs = tuple(
        problem.runs(
            method.name,
            {**options_at(changed, value, batches), **options, changed.main: value},
            size,
            f"{problem.name}, {name}, {changed.main} = {value:g}",
        )
        for value in constants
    )
    return Entry(name, changed.main, constants, runs, constants.index(centre_of(changed)))
