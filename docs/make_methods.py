"""Write ``docs/methods.md``, the index of methods; the site has a page of each, made here too.

python docs/make_methods.py, or ``make pages``
"""

import inspect
import re
import sys
from pathlib import Path

from heavystep.methods import METHODS, Method
from heavystep.optimizers import optimizer_class
from heavystep.rules import REQUIRED, Option
from heavystep.validation import SYMBOLS

DOCS = Path(__file__).parent
HEAD = """# Methods

A method is a rule, which chooses the step, and a form of momentum, which moves the parameters. Some
have a diagonal metric, as Adam does. `heavystep.create(NAME, params)` makes the optimizer, and
`heavystep.lab.simulate` and `sweep` run it in simulation. A guarantee is what the publication
proves; only those of the paper's own methods are checked here. `heavystep methods NAME` prints
formulas and options.
"""
GROUPS = {
    "The default": lambda method: method.name == "HeavyStep",
    "The paper's methods and its baselines": lambda method: method.name in PAPER,
    "Line searches": lambda method: method.rule.searches,
    "With Adam's diagonal": lambda method: method.diagonal is not None,
    "Polyak steps and relatives": lambda method: True,
}
"""Headings of the index; a method stands under the first that fits."""
PAPER = ("SHBPolyak", "SHBArmijo", "SPS", "SLS", "SHB")
LETTERS = (
    (r"\theta_k", "theta_k", "parameters"),
    ("f_k", "f_k", "loss of batch k"),
    (r"f(\theta", "f(theta; x_k)", "loss of batch k at theta"),
    ("g_k", "g_k", "gradient of that loss at theta_k"),
    (r"\ell_k", "ell_k", "lower bound of the loss, `lower_bound`"),
    (r"\gamma_k", "gamma_k", "step that is taken, `opt.info.step`"),
    (r"\eta_k", "eta_k", "multiplier of every step, `lr`"),
    (r"\beta", "beta", "momentum, `momentum`"),
    (r"\kappa", "kappa", "(1 - sqrt(beta))^2 / 2, 1/2 or 1: `scaling` `'theory'`, `'practical'` or "
     "`'plain'`"),
    (r"\mathrm{cap}_k", "cap_k", "`max_step`; with a smooth reset at most the n_b-th root of "
     "growth times the last step"),
    (r"\gamma_{\max}", "gamma_max", "`max_step`"),
    ("t_k", "t_k", "trial step that is accepted, after j trials that are not"),
    ("]_+", "[.]_+", "positive part"),
    (r"\omega", "omega", "factor between trial steps, `decrease_factor`"),
    ("d_k", "d_k", "direction, the buffer of the momentum"),
    ("z_k", "z_k", "point that takes the steps"),
    ("x_{k+1}", "x_k", "average of all z"),
    ("a_k D_k", "a_k", "length of a move of z"),
    ("D_k^{-1}", "D_k", "diagonal metric"),
    ("v_k", "v_k", "average of squared gradients; beta_2 = 0.999"),
)  # fmt: skip
"""What is in a formula, how prose shows it, and what it is."""

MORE = {
    "sgdm-aps": r"q = \mathrm{growth}^{1/n_b}",
    "l4": r"\hat d_k = d_k / (1 - \beta^{k+1}), \quad "
    r"L_k = \min\{f_k, (1 + 1/\tau) L_{k-1}\}, \quad L_0 = \rho f_0",
    "momo": r"\bar f_k = \beta \bar f_{k-1} + (1 - \beta) (f_k - \ell_k), \quad "
    r"\bar m_k = \beta \bar m_{k-1} + (1 - \beta) \langle g_k, \theta_k\rangle",
    "ponos": r"C_k = (\xi Q_{k-1} C_{k-1} + f_k) / Q_k, \quad Q_k = \xi Q_{k-1} + 1, \quad "
    r"Q_{-1} = 0, \quad l_{k+1} = \max\{l_k + e_k - 1, 0\}, \quad "
    r"e_k = \text{trials that failed}",
    "salsa": r"h_k = \beta_3 h_{k-1} + (1 - \beta_3) (f_k - f(\theta_k - t_k g_k; x_k)), \quad "
    r"s_k = \beta_3 s_{k-1} + (1 - \beta_3) \|g_k\|^2",
}
"""Formulas of the letters that only one rule has, by the name of the rule."""


def main():
    """Write the index."""
    (DOCS / "methods.md").write_text(index())


def index() -> str:
    """Every method in a line, by kind."""
    left = list(METHODS.values())
    lines = [HEAD]
    for title, fits in GROUPS.items():
        rows = [method for method in left if fits(method)]
        left = [method for method in left if method not in rows]
        lines += [f"## {title}\n", "| method | what it is | guarantee |", "|---|---|---|"]
        lines += [
            f"| [`{each.name}`]({source(each)}) | {each.summary} | {each.guarantee or 'none'} |"
            for each in rows
        ]
        lines.append("")
    return "\n".join(lines)


def source(method: Method) -> str:
    """The file of the rule, from within ``docs``; the site links its page of the method."""
    return "../src/" + method.rule.start.__module__.replace(".", "/") + ".py"


def page(method: Method) -> str:
    """Formulas, letters, options and sources of one method."""
    formulas = "".join(method.formulas)
    letters = [
        f"- {letter}: {text}"
        for part, letter, text in LETTERS
        if re.search(r"(?<![a-z])" + re.escape(part), formulas)
    ]
    text = inspect.getdoc(sys.modules[method.rule.start.__module__])
    rule = ("## The rule\n", text, "") if ".. math::" in text else ()  # a file of its own
    own = [each.name for each in method.options]
    common = [n for n in inspect.signature(optimizer_class(method.name)).parameters if n not in own]
    required = "".join(f", {o.name}=0.1" for o in method.options if o.default is REQUIRED)
    fixed = ", ".join(f"`{name}` = {value!r}" for name, value in method.fixed.items())
    facts = {
        "Name in its publication": method.title,
        "Published": method.reference,
        "Formula from": method.evidence,
        "Differs from its publication": method.differs,
        "Guarantee, as published": method.guarantee or "none",
        "Needs": method.needs,
        "Momentum": method.form.name,
        "Fixed": fixed,
        "Main constant": f"`{method.main}`" if method.main else "none",
    }
    return "\n".join(
        [
            f"# {method.name}\n",
            method.summary if method.verified else f"**Not verified.** {method.summary}",
            f'\n```python\nopt = heavystep.create("{method.name}", params{required})\n```\n',
            *(f"$${formula}$$\n" for formula in method.formulas),
            f"$${MORE[method.rule.name]}$$\n" if method.rule.name in MORE else "",
            "Where\n",
            *letters,
            f"\n{method.explained}",
            "\n## Options\n",
            *(line for each in method.options for line in option(each)),
            f"Also {', '.join(f'`{name}`' for name in common[1:])}: "
            "[`HeavyStep`](../api.md#heavystep.HeavyStep) and "
            "[`SHBPolyak`](../api.md#heavystep.SHBPolyak) explain them.\n",
            *rule,
            "## Facts\n",
            *(f"- {name}: {text}" for name, text in facts.items() if text),
            "",
        ]
    )


def option(option: Option) -> tuple[str, str]:
    """Its name, default and symbol, and what it means."""
    default = "required" if option.default is REQUIRED else f"= `{option.default!r}`"
    symbol = option.symbol or SYMBOLS.get(option.name, "")
    symbol = "" if symbol == "f_star" else symbol and f", {symbol}"
    return f"**`{option.name}`** {default}{symbol}", f":   {option.text}\n"


if __name__ == "__main__":
    main()
