"""Runs to certify: of Section 5, with diminishing steps, of torch optimizers, and ones that cheat."""

from dataclasses import replace

import torch

import heavystep
from heavystep import theory
from heavystep.problems import paper_cosine, paper_least_squares
from heavystep.records import stack
from tests.helpers.runs import draw_samples, recorded
from tests.helpers.theory_cases import LAWS

RULES = {"polyak": {"c": 0.75}, "armijo": {"c": 0.75, "omega": 0.5}}
SECTION_5 = {
    "interpolation": paper_least_squares(0.0),
    "noise": paper_least_squares(0.3),
    "strong growth": paper_cosine("strong_growth"),
    "weak growth": paper_cosine("noise"),
}


def section_5_run(name, rule, *, runs=8, steps=200, beta=0.9):
    problem, options = SECTION_5[name], RULES[rule]
    gamma_max = 1.0
    if not problem.convex:
        gamma_max = 0.8 * theory.nonconvex_step_limit(
            rule, L=problem.L, rho=problem.rho, beta=beta, **options
        )
    samples = draw_samples(problem, runs=runs, steps=steps)
    return problem, recorded(problem, rule, samples, beta=beta, gamma_max=gamma_max, **options)


def diminishing_run(rule, problem, steps=200):
    samples = draw_samples(problem, runs=6, steps=steps)
    return recorded(
        problem, rule, samples, beta=LAWS.beta, gamma_max=LAWS.gamma_max, eta=LAWS.eta,
        scaling="plain", **RULES[rule],
    )  # fmt: skip


def torch_runs(
    problem, runs, steps, cls=heavystep.SHBPolyak, dtype=torch.float64, diminishing=False, **options
):
    options = {"momentum": 0.5, "c": 0.75, "scaling": "theory", **options}
    samples = draw_samples(problem, runs=runs, steps=steps)
    A, b = torch.tensor(problem.A, dtype=dtype), torch.tensor(problem.b, dtype=dtype)
    records = []
    for indices in samples:
        theta = torch.tensor(problem.theta0, dtype=dtype, requires_grad=True)
        opt = cls([theta], **options)
        schedule = heavystep.Diminishing(opt) if diminishing else None
        recorder = heavystep.Recorder(opt, iterates=True)
        for i in indices:
            opt.step(lambda: 0.5 * (A[i] @ theta - b[i]) ** 2)
            if schedule:
                schedule.step()
        records.append(recorder.record())
    return replace(stack(records), samples=samples)
