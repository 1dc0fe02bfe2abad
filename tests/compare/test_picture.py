"""Names that do not lie on each other, colours for those that matter, and both kinds of axes."""

import numpy as np
import pytest

from heavystep.compare.looks import looks_of, spread
from heavystep.compare.outcome import Outcome
from heavystep.compare.picture import Scale, picture
from heavystep.compare.plan import plan, usual_methods
from heavystep.compare.table import rows_of
from heavystep.methods import METHODS
from heavystep.records import Trajectories


def outcome_of(final, methods=(), seeds=2):
    """Made up: F - F* goes in two records from l_0 to what ``final`` says of method and constant."""
    wanted = plan("cosine", methods, seeds=seeds, iterations=2)
    results = {}
    for place, entry in enumerate(wanted.entries):
        for power, run in enumerate(entry.runs):
            end = final(place, power) * np.linspace(1.0, 1.1, seeds)
            gap = np.stack([np.full(seeds, 50.0), end], axis=1)
            metrics = {"gap_last": gap, "trials": np.full((seeds, 2), 3.0)}
            seconds = (0.5,) * seeds
            results[run.key()] = Trajectories(
                np.array([1, 2]), tuple(range(seeds)), metrics, seconds
            )
    return Outcome.of(wanted, results)


def test_places_keep_their_order_and_distance():
    rng = np.random.default_rng(0)
    for _ in range(20):
        places = np.sort(rng.random(12))
        found = spread(places, 0.07, 0.0, 1.0)
        assert np.all(np.diff(found) > 0.07 - 1e-12)
        assert 0.0 <= found[0] <= found[-1] <= 1.0 + 1e-12
    np.testing.assert_allclose(spread([0.1, 0.5], 0.1, 0.0, 1.0), [0.1, 0.5])
    np.testing.assert_allclose(spread([0.5, 0.5], 0.1, 0.0, 1.0), [0.45, 0.55])
    assert spread([1.0] * 5, 0.5, 0.0, 1.0).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_the_papers_and_the_best_are_in_colour():
    looks = looks_of(outcome_of(lambda place, power: 40.0 - place))
    paper = {"SHBPolyak", "SHBArmijo"}
    other_rule = {f"{name}:scaling=practical" for name in paper}
    assert paper | other_rule | set(list(METHODS)[-3:]) == set(looks)
    assert len({look.colour for look in looks.values()}) == len(looks)


@pytest.mark.parametrize("level", [1e-30, 20.0], ids=["fitted", "noisy"])
def test_it_draws(level):
    outcome = outcome_of(lambda place, power: level * (1.0 + place) if power else np.nan)
    scale = Scale.of(outcome)
    assert (scale.shift == outcome.least) == (level == 20.0)
    canvas = picture(outcome)
    canvas.draw_without_rendering()
    losses, _, scores = canvas.axes
    assert {text.get_text().removesuffix(" (above)") for text in losses.texts} == {*usual_methods()}
    assert len(scores.patches) == len(usual_methods())
    for ax in canvas.axes[:2]:
        low, high = ax.get_ylim()
        assert 0.0 < low < scale.top < high


def test_one_seed_has_no_band_and_no_interval():
    outcome = outcome_of(lambda place, power: 1.0, ["SHBPolyak"], seeds=1)
    picture(outcome).draw_without_rendering()
    (row,) = rows_of(outcome)
    assert np.isnan(row.half_width)
    assert (row.final_loss, row.forwards, row.backwards, row.seconds) == (1.0, 5.0, 2.0, 0.5)
