"""Who does the runs of a sweep: processes of this machine, or a cluster of Ray or Dask."""

import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import joblib

from heavystep import validation

ENGINES = ("local", "ray", "dask")
BACKENDS = {"ray": "heavystep-ray", "dask": "dask"}
"""Names of joblib's back ends of clusters."""
PATIENCE = 10.0  # seconds to wait for an answer of a cluster
FOLDERS = ("HEAVYSTEP_DATA", "HEAVYSTEP_CACHE")
"""Environment variables of this process that workers get, too: where data and kernels are."""
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
"""A worker has one core: its libraries must not start a thread for every core."""


class Engine(NamedTuple):
    """Who does the runs.

    Args:
        name: ``"local"`` for this machine, ``"ray"`` or ``"dask"`` for a cluster.
        jobs: how many runs at a time; None: one for each core.
        address: that of a started cluster; None: one is started on this machine, for the sweep.
        gpus: that each run needs; for Ray.
    """

    name: str = "local"
    jobs: int | None = None
    address: str | None = None
    gpus: float = 0.0

    def check(self) -> None:
        """Refuse wrong values, and an engine that is not installed, before anything is done."""
        validation.choice("engine", self.name, ENGINES)
        if self.jobs is not None:
            validation.integer("jobs", self.jobs, 1)
        if self.name == "local" and self.address is not None:
            raise ValueError("address is that of a cluster: it needs the engine 'ray' or 'dask'")
        if self.name != "local":
            import_module({"ray": "ray", "dask": "distributed"}[self.name])

    def connected(self) -> AbstractContextManager[Callable[[], int]]:
        """A connection, for the length of a sweep; tells how many runs can be done at a time."""
        return {"local": _here, "ray": _ray, "dask": _dask}[self.name](self)


def _environment() -> dict[str, str]:
    """Environment of a cluster's workers; absolute paths, because they run in another folder."""
    ours = {name: os.path.abspath(os.environ[name]) for name in FOLDERS if os.environ.get(name)}
    return ours | dict.fromkeys(ONE_THREAD, "1")


@contextmanager
def _here(engine: Engine) -> Iterator[Callable[[], int]]:
    yield lambda: engine.jobs or os.cpu_count() or 1


@contextmanager
def _ray(engine: Engine) -> Iterator[Callable[[], int]]:
    """A connection to a Ray cluster."""
    import ray
    from ray.util.joblib.ray_backend import RayBackend

    class Backend(RayBackend):
        supports_return_generator = True  # as its pool calls back: joblib asks the plain one only

    # No core is reserved: a pool that asks for one on a node that was just lost waits for ever.
    needs = {"num_cpus": 0, "num_gpus": engine.gpus, "scheduling_strategy": "SPREAD",
             "runtime_env": {"env_vars": _environment()}}  # fmt: skip
    joblib.register_parallel_backend(
        BACKENDS["ray"], lambda **given: Backend(ray_remote_args=needs, **given)
    )

    def count() -> int:
        there: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        free = there.get("GPU", 0.0) / engine.gpus if engine.gpus else there.get("CPU", 1.0)
        return max(min(engine.jobs or int(free), int(free)), 1)

    if ray.is_initialized():  # by a program that uses Ray itself
        yield count
        return
    found = engine.address or os.environ.get("RAY_ADDRESS") or "local"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    local: dict[str, Any] = {"include_dashboard": False} if found == "local" else {}
    with _reached("Ray", found, "ray start --head"):
        ray.init(found, log_to_driver=False, logging_level=logging.ERROR, **local)
    try:
        yield count
    finally:
        ray.shutdown()


@contextmanager
def _dask(engine: Engine) -> Iterator[Callable[[], int]]:
    """A connection to a Dask cluster."""
    from distributed import Client, LocalCluster

    with ExitStack() as stack:
        place: Any = engine.address
        if place is None:
            place = stack.enter_context(LocalCluster(  # type: ignore[no-untyped-call]
                n_workers=engine.jobs or os.cpu_count() or 1, threads_per_worker=1,
                dashboard_address=None, env=_environment(), silence_logs=logging.ERROR,
            ))  # fmt: skip
        with _reached("Dask", engine.address or "local", "dask scheduler"):
            client: Any = Client(place, timeout=PATIENCE)  # type: ignore[no-untyped-call]
        stack.enter_context(client)
        yield lambda: engine.jobs or max(sum(client.ncores().values()), 1)


@contextmanager
def _reached(what: str, address: str, command: str) -> Iterator[None]:
    """Say in one line that a cluster cannot be reached, at once if nobody is at host:port."""
    host, _, port = address.rpartition("/")[2].rpartition(":")
    try:
        if host and port.isdigit():  # the libraries would try for minutes
            socket.create_connection((host, int(port)), timeout=PATIENCE).close()
        yield
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).partition(". ")[0]
        raise ValueError(
            f"cannot reach a {what} cluster at {address} ({reason}): start one with '{command}', "
            "or leave out the address for one on this machine"
        ) from None
