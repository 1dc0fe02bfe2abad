"""Results folders with made-up runs, small and quick to write."""

import json

import numpy as np

HOSTILE = (
    "<img src=x onerror=\"console.error('escaped')\"></script><script>console.error(1)</script>"
)


def specification(method="SHBPolyak", problem="a9a", seeds=2, iterations=40, **options):
    return {
        "format": 2,
        "problem": {"name": "libsvm", "setting": problem},
        "method": {"name": method, "options": {"lr": 1.0, **options}, "average": "uniform"},
        "versions": {"rule": 1},
        "seeds": seeds,
        "iterations": iterations,
        "batch_size": 8,
        "every": None,
    }


def write_run(folder, spec, metrics, k=None, notes=None):
    """One file, as a store would write it; metrics are (seeds, G)."""
    rows, points = next(iter(metrics.values())).shape
    k = np.arange(1, points + 1) if k is None else k
    columns = {"seed": np.repeat(np.arange(rows), points), "k": np.tile(k, rows)}
    columns |= {name: np.ascontiguousarray(values.reshape(-1)) for name, values in metrics.items()}
    text = json.dumps(spec, sort_keys=True)
    number = len(list((folder / "runs").glob("*.parquet")))
    path = folder / "runs" / f"{number:024x}.parquet"
    parquet.write(path, text, columns, notes)
    return path


def falling(seeds=2, points=40, rate=0.1):
    """A loss that falls, a step and trials."""
    k = np.arange(1, points + 1)
    loss = np.exp(-rate * k) * (1.0 + 0.1 * np.arange(seeds))[:, None]
    return {"loss": loss, "step": 0.5 + 0.0 * loss, "trials": 1.0 + 0.0 * loss}


def comparison(folder):
    """A folder as ``heavystep compare`` leaves it: two methods, one of them twice, and a table."""
    write_run(folder, specification(c=0.5), falling(rate=0.1))
    write_run(folder, specification(c=1.0), falling(rate=0.2))
    write_run(folder, specification("SPS"), falling(rate=0.3), notes={"seconds": "[1.5, 2.0]"})
    (folder / "a9a.csv").write_text("method,final_loss\nSPS,1e-3\n")
    return folder
