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
COMMANDS = {
    "step-bounds": "--rule armijo --omega 0.5 --L 42 --beta 0.9 --c 0.75 --gamma-max 1",
    "diminishing-step-bounds": f"--rule polyak --L 42 --c 0.75 {LAWS}",
    "strongly-convex": f"{CONVEX} --mu 0.5 --sigma2 0.1",
    "convex": f"{CONVEX} --sigma2 0.045",
    "nonconvex": "--rule polyak --L 3 --rho 1.25 --delta 1 --beta 0.9 --c 0.75 --gamma-max 1e-4 --gap0 9",
    "convex-almost-sure": CONVEX,
    "nonconvex-almost-sure": "--rule polyak --L 3 --rho 1.25 --beta 0.9 --c 0.75 --gamma-max 1e-4 --gap0 9",
    "convex-diminishing": f"--rule polyak --L 42 --c 0.75 {LAWS}",
    "nonconvex-diminishing": f"--rule polyak --L 3 --rho 1.25 --delta 1 --c 0.75 {LAWS}",
}
CONSTANTS = {
    "step-bounds": ["gamma_min", "gamma_max"],
    "diminishing-step-bounds": ["gamma_min at k = 10", "gamma_max at k = 100000"],
    "strongly-convex": ["rate", "residual", "other_root", "B", "100000"],
    "convex": ["A", "M", "gamma_min", "100000"],
    "nonconvex": ["s1", "s2", "q", "gamma_max_limit", "100000"],
    "convex-almost-sure": ["expected_sum", "sampled_sum", "100000"],
    "nonconvex-almost-sure": ["expected_sum", "100000"],
    "convex-diminishing": ["K", "c_limit", "S_k", "100000"],
    "nonconvex-diminishing": ["K", "S_k", "100000"],
}
BAD = [
    ("convex " + CONVEX.replace("0.75", "0.4"), r"Theorem 2 needs c > 1/2, got c = 0.4"),
    ("convex " + CONVEX.replace("polyak", "armijo"), r"needs omega in \(0, 1\) for the Armijo rule"),
    ("convex " + CONVEX.replace("polyak", "sgd"), r"rule must be one of 'polyak', 'armijo', got 'sgd'"),
    ("convex " + CONVEX.replace("42", "nan"), r"Theorem 2 needs L > 0 and finite, got L = nan"),
    (f"convex {CONVEX} --k 0", r"Theorem 2 needs whole numbers k >= 1, got k = 0"),
    (f"convex {CONVEX} --k ten", r"--k must be numbers separated by commas, got 'ten'"),
    ("nonconvex " + COMMANDS["nonconvex"].replace("1e-4", "1"), r"Theorem 3 needs gamma_max < limit, got gamma_max = 1.0, limit = "),
    (f"convex-diminishing {COMMANDS['convex-diminishing']} --beta-power 1", r"item \(i\) .* beta_power > 1, got 1"),
    (f"schedules {LAWS} --eta-power 0.8", r"item \(iii\).*eta_power \+ gamma_max_power <= 1, got 1.1"),
    (f"convex-diminishing {COMMANDS['convex-diminishing']} --k 1e10", r"S_k is summed step by step, up to k = 1e\+09"),
    (f"schedules {LAWS} --eta-power nan", r"needs eta_power finite, got eta_power = nan"),
    ("schedules --gamma-max0 -1", r"needs gamma_max0 > 0 and finite, got gamma_max0 = -1.0"),
    ("advice --rule polyak --L 0 --beta 0.9", r"advice needs L > 0 and finite, got L = 0.0"),
]  # fmt: skip


def invoke(line):
    return CliRunner().invoke(app, ["theory", *line.split()])


def test_every_scalar_result_has_a_command():
    assert set(COMMANDS) == {result.name for result in RESULTS if result.scalar}


@pytest.mark.parametrize("name", COMMANDS)
def test_command_prints_constants(name):
    result = invoke(f"{name} {COMMANDS[name]}")
    assert result.exit_code == 0, result.output
    for constant in CONSTANTS[name]:
        assert re.search(rf"{constant}\b.*\d", result.output), constant
    assert "nan" not in result.output


def test_registry_is_listed():
    result = invoke("")
    assert result.exit_code == 0
    for entry in RESULTS:
        assert entry.id in result.output
        assert (entry.name if entry.scalar else entry.function.__name__) in result.output  # not cut


def test_numbers_are_those_of_the_function():
    promise = theory.convex(
        "polyak", L=42, beta=0.9, c=0.75, gamma_max=1, dist0_sq=20, sigma2=0.045
    )
    out = invoke(f"convex {COMMANDS['convex']} --k 7,1e5").output
    for value in (promise.A, promise.M, promise.bound(7), promise.bound(10**5)):
        assert f"{value:.10g}" in out


def test_help_names_every_argument():
    out = invoke("strongly-convex --help").output
    for option in ("--L", "--mu", "--dist0-sq", "--omega", "--k"):
        assert option in out
    assert "E[f(theta*; x) - f*(x)]" in re.sub(r"\s+", " ", out)


@pytest.mark.parametrize(("line", "message"), BAD)
def test_bad_input_is_one_line(line, message):
    result = invoke(line)
    assert result.exit_code == 2
    told = result.stderr.strip().splitlines()
    assert len(told) == 1
    assert re.search(message, told[0]), told


def test_advice():
    out = invoke("advice --rule armijo --omega 0.5 --L 42 --beta 0.9 --rho 1.25 --c 0.75").output
    limit = theory.nonconvex_step_limit("armijo", L=42, rho=1.25, beta=0.9, c=0.75, omega=0.5)
    assert f"in (0, {limit:g})" in out
    assert "0.707107" in out


def test_bounds_that_the_proofs_carry():
    line = f"convex-diminishing {COMMANDS['convex-diminishing']} --k 5 --dist0-sq 3 --gap0 1"
    laws = Schedules.power_laws(0.5, 0.4, 0.9, 1.1, 0.02, 0.3)
    promise = theory.convex_diminishing("polyak", L=42, schedules=laws, c=0.75)
    assert f"{promise.bound(5, dist0_sq=3, gap0=1):.10g}" in invoke(line).output


def test_version():
    assert CliRunner().invoke(app, ["--version"]).output.strip() == heavystep.__version__


def test_entry_point():
    run = subprocess.run(
        [sys.executable, "-m", "heavystep", "theory", "convex", *CONVEX.split()],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Theorem 2" in run.stdout


def test_without_the_extra_one_line_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None; from heavystep.cli import main; main()"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr.strip().splitlines() == [
        f"heavystep's command line needs typer: {install('lab')}"
    ]
