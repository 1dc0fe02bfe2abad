"""Figure 1 in its smallest size."""

import pyarrow.parquet as pq

from heavystep.lab.figures.figure1 import figure1
from heavystep.lab.store import Store
from heavystep.lab.sweeps import Engine, complete
from tests.helpers.told import Told

SMALL = {"seeds": 2, "iterations": 1000}


def run_it(folder):
    """The figure, the store of its runs in a folder, and their results."""
    figure, store = figure1(**SMALL), Store(folder)
    runs = figure.runs()
    found = complete(runs.values(), store, Told(), Engine(jobs=2))
    return figure, store, {key: run.trajectories(found[key]) for key, run in runs.items()}


def damage_data(path):
    """One bit of the numbers, far from the footer."""
    column = pq.read_metadata(path).row_group(0).column(2)
    content = bytearray(path.read_bytes())
    begin = column.dictionary_page_offset or column.data_page_offset
    content[begin + column.total_compressed_size - 9] ^= 0x10
    path.write_bytes(bytes(content))
