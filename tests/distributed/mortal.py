"""Runs a script whose rank 1 kills itself at the first attempt; run by torchrun.

python mortal.py CALL SCRIPT ...: in the CALL-th evaluation of cross-entropy.
"""

import os
import runpy
import signal
import sys
from itertools import count
from pathlib import Path

from torch.nn import functional


def kill_at(call):
    numbers, real = count(1), functional.cross_entropy

    def counted(*arguments, **options):
        if next(numbers) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)

    functional.cross_entropy = counted


def threads():
    """Names of those that this process has, as far as the system tells."""
    return [name.read_text().strip() for name in Path("/proc/self/task").glob("*/comm")]


if __name__ == "__main__":
    if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        kill_at(int(sys.argv[1]))
    del sys.argv[:2]
    runpy.run_path(sys.argv[0], run_name="__main__")
    # They would go on into the end of the interpreter, which now and then aborts the process.
    assert not [name for name in threads() if "gloo" in name], threads()
