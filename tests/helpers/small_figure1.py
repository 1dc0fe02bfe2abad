"""Figure 1 in its smallest size."""

import pyarrow.parquet as pq

from heavystep.paper.figure1.definition import figure1
from heavystep.sweeps.engines import LocalEngine
from heavystep.sweeps.runner import complete
from heavystep.sweeps.store import Store
from tests.helpers.told import Told

SMALL = {"seeds": 2, "iterations": 1000}


def run_it(folder):
    """The figure, the store of its runs in a folder, and their results."""
    figure, store = figure1(**SMALL), Store(folder)
    return figure, store, complete(figure.runs(), store, Told(), engine=LocalEngine(2))


def damage_data(path):
    """One bit of the numbers, far from the footer."""
    column = pq.read_metadata(path).row_group(0).column(3)
    content = bytearray(path.read_bytes())
    begin = column.dictionary_page_offset or column.data_page_offset
    content[begin + column.total_compressed_size - 9] ^= 0x10
    path.write_bytes(bytes(content))
