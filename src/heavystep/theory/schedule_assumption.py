"""Assumption 5: what diminishing schedules must satisfy, decided exactly for power laws."""

from heavystep import validation
from heavystep.schedules import Schedules, check_diminishing
from heavystep.theory import conditions
from heavystep.theory.rules import checked


def check(
    result: str, rule: str, *, L: float, schedules: Schedules, c: float, omega: float | None
) -> None:
    """Check the arguments that results on diminishing steps share; errors name ``result``."""
    conditions.real(result, validation.POSITIVE, L=L)
    checked(result, rule, c=c, omega=omega)
    check_schedules(result, schedules)


def check_schedules(result: str, schedules: Schedules) -> None:
    """Refuse schedules outside Assumption 5; the error names the item that fails."""
    if not isinstance(schedules, Schedules):
        raise TypeError(f"{result} needs schedules of type Schedules, got {schedules!r}")
    eta, beta, gamma_max = schedules
    conditions.real(result, validation.POSITIVE, eta0=eta.initial, gamma_max0=gamma_max.initial)
    conditions.real(result, validation.UNIT, beta0=beta.initial)
    for name, law in schedules._asdict().items():
        conditions.real(result, validation.FINITE, **{f"{name}_power": law.power})
        conditions.real(result, validation.POSITIVE, **{f"{name}_horizon": law.horizon})
    conditions.real(result, validation.NON_NEGATIVE, beta_power=beta.power)
    horizons = {law.horizon for law in schedules}
    if len(horizons) > 1:
        raise ValueError(f"{result} needs one horizon for all schedules, got {sorted(horizons)}")
    try:
        check_diminishing(eta, beta, gamma_max)
    except ValueError as error:
        reason = str(error).replace("max_step_power", "gamma_max_power")
        raise ValueError(f"{result}: {reason}") from None
