"""Draw the paths of all methods on two functions of two variables.

python docs/make_gallery.py, or ``make gallery``: writes ``docs/results/gallery``; a minute
"""

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from heavystep import create
from heavystep.methods import METHODS
from heavystep.paper.plot import COLOURS, save
from heavystep.rules import REQUIRED

FOLDER = Path(__file__).parent / "results" / "gallery"
STEPS = 500
COLUMNS = 6
LR = 1e-3
"""Of methods that ask for one: the best power of ten on Rosenbrock's function."""


class Landscape(NamedTuple):
    """A function whose least value is 0, and where runs begin."""

    title: str
    loss: Callable[[Tensor, Tensor], Tensor]
    start: tuple[float, float]
    least: tuple[float, float]
    x: tuple[float, float]
    y: tuple[float, float]


def rosenbrock(x: Tensor, y: Tensor) -> Tensor:
    """A bent valley: a hundred times steeper across than along."""
    return (1.0 - x) ** 2 + 100.0 * (y - x**2) ** 2


def quadratic(x: Tensor, y: Tensor) -> Tensor:
    """Condition number 100, with axes turned by 30 degrees, about (1, -1/2)."""
    cos, sin = math.cos(math.pi / 6), math.sin(math.pi / 6)
    along, across = cos * (x - 1.0) + sin * (y + 0.5), cos * (y + 0.5) - sin * (x - 1.0)
    return 0.5 * along**2 + 50.0 * across**2


LANDSCAPES = {
    "rosenbrock": Landscape(
        "Rosenbrock's function", rosenbrock, (-1.5, 2.0), (1.0, 1.0), (-2.2, 2.2), (-1.0, 3.2)
    ),
    "quadratic": Landscape(
        "a quadratic of condition 100",
        quadratic,
        (-2.0, 1.2),
        (1.0, -0.5),
        (-2.8, 2.2),
        (-2.2, 2.2),
    ),
}


class Walk(NamedTuple):
    """Where a method went, and what that cost."""

    places: np.ndarray
    loss: float
    forwards: float


def walk(name: str, landscape: Landscape, steps: int = STEPS) -> Walk:
    """The path of a method with nothing set but a learning rate that it may require."""
    place = torch.tensor(landscape.start, dtype=torch.float64, requires_grad=True)
    method, calls = METHODS[name], 0
    required = [option.name for option in method.options if option.default is REQUIRED]
    opt = create(name, [place], **dict.fromkeys(required, LR))

    def closure() -> Tensor:
        nonlocal calls
        calls += 1
        return landscape.loss(place[0], place[1])

    places = [place.tolist()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a step of 1e-3 is small is what is shown
        for _ in range(steps):
            opt.step(closure)
            places.append(place.tolist())
    return Walk(np.array(places), float(landscape.loss(*place.detach())), calls / steps)


def picture(landscape: Landscape, walks: dict[str, Walk]) -> Figure:
    """One panel for each method, over the contours of the function."""
    rows = math.ceil(len(walks) / COLUMNS)
    canvas = Figure(figsize=(2.0 * COLUMNS, 1.9 * rows + 0.4), layout="constrained")
    panels = canvas.subplots(rows, COLUMNS, squeeze=False).ravel()
    x, y = (torch.linspace(*ends, 120, dtype=torch.float64) for ends in (landscape.x, landscape.y))
    height = np.log10(landscape.loss(x[None, :], y[:, None]).numpy() + 1e-4)
    for panel, (name, path) in zip(panels, walks.items(), strict=False):
        panel.contourf(x, y, height, levels=14, cmap="Greys", alpha=0.4)
        panel.plot(*path.places.T, "-", lw=0.9, color=COLOURS[0])
        panel.plot(*path.places.T, ".", ms=2.0, color=COLOURS[4])
        panel.plot(*landscape.least, "*", ms=9, color=COLOURS[2], mec="white", mew=0.5)
        panel.set(xlim=landscape.x, ylim=landscape.y, xticks=[], yticks=[])
        panel.set_title(f"{name}: {path.loss:.0e}", fontsize=8)
    for panel in panels[len(walks) :]:
        panel.set_axis_off()
    canvas.suptitle(f"{landscape.title}: {STEPS} steps, and the loss at the end", fontsize=10)
    return canvas


def page(walks: dict[str, dict[str, Walk]]) -> str:
    """The table below the pictures."""
    lines = [
        "# Gallery",
        "",
        f"All methods of `heavystep methods` on two functions of two variables, {STEPS} steps each,"
        f" nothing set (`lr={LR:g}` where one is required). Gradients are exact, so this shows how"
        " rules see a landscape, and nothing of noise. `make gallery` draws it anew.",
        "",
        "Defaults are those of deep learning. `SPS` takes ten times the Polyak step (`c=0.1`),"
        " which neither function forgives; methods whose steps only fall, or that warm up slowly,"
        " are still near the start.",
        "",
    ]
    lines += [f"![{each.title}]({name}.png)\n" for name, each in LANDSCAPES.items()]
    heads = [f"{each.title}: loss | forwards a step" for each in LANDSCAPES.values()]
    lines += [f"| method | {' | '.join(heads)} |", "|---" * (1 + 2 * len(heads)) + "|"]
    for name in METHODS:
        cells = [f"{w[name].loss:.1e} | {w[name].forwards:.2f}" for w in walks.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write pictures and page."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    walks = {
        name: {method: walk(method, landscape) for method in METHODS}
        for name, landscape in LANDSCAPES.items()
    }
    for name, landscape in LANDSCAPES.items():
        save(picture(landscape, walks[name]), FOLDER / name, dpi=90, endings=("png",))
    (FOLDER / "README.md").write_text(page(walks))


if __name__ == "__main__":
    main()
