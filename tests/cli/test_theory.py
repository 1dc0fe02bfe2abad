"""``heavystep theory`` through its entry point."""

import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import heavystep
from heavystep import theory
from heavystep.cli.app import app
from heavystep.extras import install
from heavystep.schedules import Schedules
from heavystep.theory.registry import RESULTS

CONVEX = "--rule polyak --L 42 --beta 0.9 --c 0.75 --gamma-max 1 --dist0-sq 20"
LAWS = "--gamma-max0 0.02"
COSINE = "--rule polyak --L 3 --rho 1.25 --c 0.75"
COMMANDS = {
    "step-bounds": ("--rule armijo --omega 0.5 --L 42 --beta 0.9 --c 0.75 --gamma-max 1", "gamma_min gamma_max"),
    "diminishing-step-bounds": (f"--rule polyak --L 42 --c 0.75 {LAWS}", "100000"),
    "strongly-convex": (f"{CONVEX} --mu 0.5 --sigma2 0.1", "rate residual other_root B 100000"),
    "convex": (f"{CONVEX} --sigma2 0.045", "A M gamma_min 100000"),
    "nonconvex": (f"{COSINE} --delta 1 --beta 0.9 --gamma-max 1e-4 --gap0 9",
                  "s1 s2 q gamma_max_limit 100000"),
    "convex-almost-sure": (CONVEX, "expected_sum sampled_sum 100000"),
    "nonconvex-almost-sure": (f"{COSINE} --beta 0.9 --gamma-max 1e-4 --gap0 9", "expected_sum 100000"),
    "convex-diminishing": (f"--rule polyak --L 42 --c 0.75 {LAWS}", "K c_limit 100000"),
    "nonconvex-diminishing": (f"{COSINE} --delta 1 {LAWS}", "K 100000"),
}  # fmt: skip
"""Options, and what is printed with a number."""
DIMINISHING = f"convex-diminishing {COMMANDS['convex-diminishing'][0]}"
BAD = [
    ("convex " + CONVEX.replace("0.75", "0.4"), r"Theorem 2 needs c > 1/2, got c = 0.4"),
    ("convex " + CONVEX.replace("polyak", "armijo"), r"needs omega in \(0, 1\) for the Armijo rule"),
    ("convex " + CONVEX.replace("polyak", "sgd"), r"rule must be one of 'polyak', 'armijo', got 'sgd'"),
    (f"convex {CONVEX} --k 0", r"Theorem 2 needs whole numbers k >= 1, got k = 0"),
    (f"convex {CONVEX} --k ten", r"--k must be numbers separated by commas, got 'ten'"),
    ("nonconvex " + COMMANDS["nonconvex"][0].replace("1e-4", "1"), r"Theorem 3 needs gamma_max < limit, got gamma_max = 1.0, limit = "),
    (f"{DIMINISHING} --beta-power 1", r"item \(i\) .* beta_power > 1, got 1"),
    (f"schedules {LAWS} --eta-power 0.8", r"item \(iii\).*eta_power \+ gamma_max_power <= 1, got 1.1"),
    (f"{DIMINISHING} --k 1e10", r"S_k is summed step by step, up to k = 1e\+09"),
    (f"schedules {LAWS} --eta-power nan", r"needs eta_power finite, got eta_power = nan"),
    ("convex --L 42 --c 0.75", "theory convex needs --rule, --beta, --gamma-max, --dist0-sq;"),
    ("advice --rule polyak --L 0 --beta 0.9", r"advice needs L > 0 and finite, got L = 0.0"),
]  # fmt: skip


def invoke(line):
    return CliRunner().invoke(app, ["theory", *line.split()])


def test_every_scalar_result_has_a_command():
    assert set(COMMANDS) == {result.name for result in RESULTS if result.scalar}


@pytest.mark.parametrize("name", COMMANDS)
def test_command_prints_constants(name):
    options, constants = COMMANDS[name]
    result = invoke(f"{name} {options}")
    assert result.exit_code == 0, result.output
    for constant in constants.split():
        assert re.search(rf"\b{constant}\b.*\d", result.output), constant
    assert "nan" not in result.output


def test_registry_is_listed():
    result = invoke("")
    assert result.exit_code == 0
    for entry in RESULTS:
        assert entry.id in result.output
        assert (entry.name if entry.scalar else entry.function.__name__) in result.output  # not cut


LAWS_0_02 = Schedules.power_laws(0.5, 0.4, 0.9, 1.1, 0.02, 0.3)


def test_numbers_are_those_of_the_functions():
    given = {"L": 42, "beta": 0.9, "c": 0.75, "gamma_max": 1, "dist0_sq": 20}
    convex = theory.convex("polyak", **given, sigma2=0.045)
    promise = theory.convex_diminishing("polyak", L=42, schedules=LAWS_0_02, c=0.75)
    limit = theory.nonconvex_step_limit("armijo", L=42, rho=1.25, beta=0.9, c=0.75, omega=0.5)
    printed = {
        f"convex {COMMANDS['convex'][0]} --k 7,1e5":
            (convex.A, convex.M, convex.bound(7), convex.bound(10**5)),
        f"{DIMINISHING} --k 5 --dist0-sq 3 --gap0 1":
            (promise.bound(5, dist0_sq=3, gap0=1), promise.S(5), promise.rate(5)),
        f"diminishing-step-bounds --rule polyak --L 42 --c 0.75 {LAWS} --k 9":
            theory.diminishing_step_bounds("polyak", L=42, schedules=LAWS_0_02, c=0.75, k=9),
        "advice --rule armijo --omega 0.5 --L 42 --beta 0.9 --rho 1.25 --c 0.75":
            (float(f"{limit:g}"), 0.707107),
    }  # fmt: skip
    for line, values in printed.items():
        out = invoke(line).output
        assert all(f"{value:.10g}" in out for value in values), line


@pytest.mark.parametrize(("line", "message"), BAD)
def test_bad_input_is_one_line(line, message):
    result = invoke(line)
    assert result.exit_code == 2
    told = result.stderr.strip().splitlines()
    assert len(told) == 1
    assert re.search(message, told[0]), told
    assert ("NO" in result.stdout) == ("schedules" in line and "item" in message)


def test_version():
    assert CliRunner().invoke(app, ["--version"]).output.strip() == heavystep.__version__


@pytest.mark.parametrize("blocked", [False, True])
def test_entry_point_with_and_without_the_extra(blocked):
    code = f"import sys; {blocked} and sys.modules.update(typer=None)\n"
    code += "import runpy; runpy.run_module('heavystep', run_name='__main__')"
    command = [sys.executable, "-c", code, "theory", "convex", *CONVEX.split()]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == int(blocked)
    assert blocked or "Theorem 2" in run.stdout
    needed = f"heavystep's command line needs typer: {install('lab')}"
    assert run.stderr.strip() == (needed if blocked else "")
