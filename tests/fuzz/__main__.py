"""``make fuzz``, or ``python -m tests.fuzz [--seed N] [--share X] [words of a campaign]``.

Each trial has random numbers of its own, from the seed, the campaign and its number, so that a failure
can be seen again: its line names all three. The last lines are a table: tried, failed.
"""

import argparse
import sys
import tempfile
import time
import traceback
import zlib
from pathlib import Path

import numpy as np
import torch

from tests.fuzz import optimizers
from tests.fuzz.campaign import Campaign

CAMPAIGNS = [*optimizers.CAMPAIGNS]
SHOWN = 5
"""Failures of a campaign that are told in full."""


def one(campaign: Campaign, seed: int, number: int) -> str:
    """What went wrong in a trial; '' if nothing did."""
    rng = np.random.default_rng([seed, zlib.crc32(campaign.name.encode()), number])
    try:
        with tempfile.TemporaryDirectory() as folder:
            campaign.trial(rng, Path(folder))
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"
    return ""


def main() -> None:
    """Run the campaigns and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*", help="only campaigns with these words in their name")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of the usual number of trials")
    parser.add_argument("--only", type=int, help="the trial of that number alone")
    given = parser.parse_args()
    torch.set_num_threads(1)
    table, bad = [], 0
    for campaign in CAMPAIGNS:
        if not all(word in campaign.name for word in given.words):
            continue
        begin, failed = time.monotonic(), 0
        count = max(1, round(campaign.tries * given.share))
        numbers = range(count) if given.only is None else [given.only]
        for number in numbers:
            if text := one(campaign, given.seed, number):
                failed += 1
                if failed <= SHOWN:
                    print(f"{campaign.name}, seed {given.seed}, trial {number}: {text}", flush=True)
        seconds = time.monotonic() - begin
        table.append(f"| {campaign.name} | {len(numbers):,} | {failed} | {seconds:.0f} s |")
        print(table[-1], flush=True)
        bad += failed
    print("\n| seed " + str(given.seed) + " | tried | failed | time |\n|---|---|---|---|")
    print("\n".join(table))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
