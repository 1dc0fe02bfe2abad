"""Trains a small network on its share of each batch; run by torchrun, one process a rank.

python worker.py JOB ... FOLDER: jobs are done one after another, since processes take longer to
start than to train.
"""

import copy
import os
import sys
import time
import warnings
from contextlib import contextmanager, nullcontext
from functools import partial

import torch
from torch import distributed, nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import heavystep
from tests.helpers.cases import ROWS
from tests.helpers.training import loss_of, make_batches, make_net

STEPS = 8
PRACTICAL = {"scaling": "practical"}
IN_OBJECTIVE = {**PRACTICAL, "max_step": 6.0, "weight_decay": 0.1, "decay": "objective"}
METHODS = {
    "SHB": partial(heavystep.SHB, lr=0.05),
    "SHBPolyak": partial(heavystep.SHBPolyak, **PRACTICAL, steps_per_epoch=5),
    "HeavyStep": heavystep.HeavyStep,
    "SPS": partial(heavystep.SPS, c=0.6, steps_per_epoch=5),
    "SHBArmijo": partial(heavystep.SHBArmijo, **PRACTICAL, steps_per_epoch=2, max_step=6.0),
    "SHBArmijo bounded": partial(heavystep.SHBArmijo, lower_bound=0.0),
    "SHBArmijo objective": partial(heavystep.SHBArmijo, **IN_OBJECTIVE),
    "SLS": partial(heavystep.SLS, max_step=6.0, lower_bound=0.0),
}


EVERY_ROW = {case.id: case.make for case in ROWS}
STEPS_OF_ROWS = 4


def make(name, params, **options):
    return METHODS[name](params, **options)


def whole(net):
    """All parameters, wherever they are."""
    return torch.cat(
        [getattr(p, "full_tensor", lambda p=p: p)().detach().reshape(-1) for p in net.parameters()]
    )


def train(net, opt, batches):
    """Steps and numbers of trials."""
    taken = []
    for batch in batches:
        opt.step(lambda: loss_of(net, batch))
        taken.append((float(opt.info.step), float(opt.info.loss), int(opt.info.trials)))
    return taken


def share(batch, rank, ranks):
    """The part of a batch that a rank sees; all of the same size."""
    return tuple(part.chunk(ranks)[rank] for part in batch)


def wrapped(net, how, device="cpu"):
    if how == "ddp":
        return DistributedDataParallel(net)
    ranks = distributed.get_world_size()
    shape, names = (ranks,), ("shards",)
    if how == "hsdp":
        shape, names = (2, ranks // 2), ("copies", "shards")
    mesh = distributed.device_mesh.init_device_mesh(device, shape, mesh_dim_names=names)
    if how != "fsdp root":  # where the root holds all parameters itself
        for layer in net:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def trained(how, dtype, rank, ranks, methods=METHODS, steps=STEPS, device="cpu"):
    found = {}
    for name, optimizer in methods.items():
        net = wrapped(make_net(dtype=dtype).to(device), how, device)
        opt = optimizer(net.parameters())
        batches = [share(batch, rank, ranks) for batch in make_batches(steps, dtype=dtype)]
        with noted_messages() as sent:
            taken = train(net, opt, [[part.to(device) for part in batch] for batch in batches])
        found[name] = {"taken": taken, "parameters": whole(net).cpu(), "messages": len(sent)}
    return found


def grouped(size, dtype, rank, ranks):
    """Groups of so many ranks, each of which trains by itself on its part of each batch."""
    groups = [range(first, first + size) for first in range(0, ranks, size)]
    group = [distributed.new_group(list(members)) for members in groups][rank // size]
    found = {}
    for name in METHODS:
        net = DistributedDataParallel(make_net(dtype=dtype), process_group=group)
        opt = make(name, net.parameters(), process_group=group)
        parts = [share(batch, rank // size, len(groups)) for batch in make_batches(4, dtype=dtype)]
        with noted_messages() as sent:
            taken = train(net, opt, [share(part, rank % size, size) for part in parts])
        found[name] = {"taken": taken, "parameters": whole(net), "messages": len(sent)}
    return found


def outsider(dtype, rank, ranks):
    """What an optimizer says to a process that its group leaves out."""
    group, net = distributed.new_group([0]), make_net(dtype=dtype)
    try:
        opt = make("SHBPolyak", net.parameters(), process_group=group)
    except ValueError as error:
        return str(error)
    copied = copy.deepcopy(opt)._measure
    return copied.count_processes()


def normed(dtype, rank, ranks):
    """A search with BatchNorm, whose statistics are each rank's own until a forward."""
    net = wrapped(make_net(dtype=dtype, norm=True), "ddp")
    opt = make("SHBArmijo", net.parameters(), buffers=net.buffers)
    taken = train(net, opt, [share(batch, rank, ranks) for batch in make_batches(4, dtype=dtype)])
    return {"taken": taken, "parameters": whole(net), "buffers": list(net.buffers())}


def bad(dtype, rank, ranks):
    """NaN inputs on one rank, then a smaller batch, then an empty one on the other rank."""
    found = {}
    for name, optimizer in (METHODS | EVERY_ROW).items():
        net = wrapped(make_net(dtype=dtype), "ddp")
        opt = optimizer(net.parameters())
        accepted = []
        for k, batch in enumerate(make_batches(5, dtype=dtype)):
            x, y = share(batch, rank, ranks)
            if (k, rank) == (1, 1):
                x = x * torch.nan
            if (k, rank) == (2, 1):
                x, y = x[:1], y[:1]
            if (k, rank) == (3, 0):
                x, y = x[:0], y[:0]
            opt.step(lambda: loss_of(net, (x, y)))
            accepted.append(bool(opt.info.accepted))
        found[name] = {"accepted": accepted, "parameters": whole(net)}
    return found


def warned(dtype, rank, ranks):
    """What is said of batches that are NaN on the last rank only."""
    net = wrapped(make_net(dtype=dtype), "ddp")
    opt, wrong = make("SHBPolyak", net.parameters()), rank == ranks - 1
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", RuntimeWarning)
        for x, y in make_batches(30, dtype=dtype):
            x, y = share((x * torch.nan if wrong else x, y), rank, ranks)
            opt.step(lambda x=x, y=y: loss_of(net, (x, y)))
    return [str(each.message) for each in said if each.category is RuntimeWarning]


@contextmanager
def noted_messages():
    """A list to which the shapes of what optimizers add up are appended."""
    sent, real = [], distributed.all_reduce

    def noted(tensor, *arguments, **options):
        sent.append(tuple(tensor.shape))
        return real(tensor, *arguments, **options)

    distributed.all_reduce = noted
    try:
        yield sent
    finally:
        distributed.all_reduce = real


OTHER_OPTIONS = {
    "SHB": {"lr": 0.1},
    "SHBPolyak": {"c": 0.2},
    "HeavyStep": {"weight_decay": 0.1},
    "SHBArmijo": {"c": 0.2},
    "SHBArmijo bounded": {"max_trials": 3},
    "SLS": {"max_step": 1e-3},
}


def disagreeing(dtype, rank, ranks):
    """What is said when the last rank has an option of its own: from the start, or later on."""
    found = {}
    for name, other in OTHER_OPTIONS.items():
        for begins in (0, 2):
            net = wrapped(make_net(dtype=dtype), "ddp")
            opt, said = METHODS[name](net.parameters()), (None, None)
            for k, batch in enumerate(make_batches(4, dtype=dtype)):
                if (k, rank) == (begins, ranks - 1):
                    opt.param_groups[0].update(other)
                before = whole(net)
                try:
                    opt.step(lambda: loss_of(net, share(batch, rank, ranks)))
                except ValueError as error:
                    said = (str(error), k)
                    assert torch.equal(whole(net), before)
                    break
            found[name, begins] = said
    return found


OWN = ("parameters", "state", "memory", "frozen", "a gradient", "gradients", "bound", "join")


def own(dtype, rank, ranks):
    """What is said, and how soon, when the last rank has something of its own at the third step."""
    found, last = {}, rank == ranks - 1
    for what in OWN:
        net = make_net(dtype=dtype)
        model = wrapped(net, "ddp") if what == "join" else net
        opt = heavystep.HeavyStep(model.parameters())
        saved = []
        with model.join() if what == "join" else nullcontext():
            for k, batch in enumerate(make_batches(4, dtype=dtype)):
                saved.append(copy.deepcopy(opt.state_dict()))
                opt.zero_grad()
                loss = loss_of(model, share(batch, 0, ranks))
                loss.backward()
                bound = None
                if k == 2:
                    bound = change(what, opt, net, saved, last)
                begin = time.perf_counter()
                try:
                    opt.step(loss=loss, lower_bound=bound)
                except ValueError as error:
                    found[what] = str(error), k, time.perf_counter() - begin
                    break
    return found


def change(what, opt, net, saved, last):
    """Make the last rank differ; the lower bound of its step."""
    if what in ("parameters", "state", "memory"):
        state = saved[1 if last and what == "memory" else 2]
        if last and what == "state":
            state["state"][0]["lead"] *= 2
        opt.load_state_dict(state)
    if last and what == "parameters":
        with torch.no_grad():
            net[0].weight *= 2
    if last and what == "frozen":
        net[0].weight.requires_grad_(False)
    if last and what == "a gradient":
        net[0].bias.grad = None
    if last and what == "gradients":
        opt.zero_grad()
    return 0.1 if last and what == "bound" else None


def bounded(dtype, rank, ranks):
    """Steps with a lower bound of each rank's part of the batch, and how many messages they took."""
    found = {}
    for name, method in METHODS.items():
        net = wrapped(make_net(dtype=dtype), "ddp")
        opt = method(net.parameters())
        if "lower_bound" not in opt.method.rule.reads:
            continue
        taken, recorder = [], heavystep.Recorder(opt)
        with noted_messages() as sent, recorder:
            for k, batch in enumerate(make_batches(4, dtype=dtype)):
                part = share(batch, rank, ranks)
                opt.step(lambda: loss_of(net, part), lower_bound=own_bound(k, rank))
                taken.append((float(opt.info.step), int(opt.info.trials)))
        found[name] = {"taken": taken, "parameters": whole(net), "messages": len(sent)}
        found[name]["bounds"] = recorder.record().f_star[0].tolist()
    return found


def own_bound(k, rank):
    """Another one on each rank and at each step; a tensor or a number."""
    bound = 0.3 * rank + 0.1 * k
    return bound if k % 2 else torch.tensor(bound)


def kept(net, opt, **others):
    """What a checkpoint holds."""
    return {"net": get_model_state_dict(net), "opt": get_optimizer_state_dict(net, opt), **others}


def load(folder, net, opt, **others):
    """Go on from a checkpoint, and return what it holds."""
    state = kept(net, opt, **others)
    checkpoint.load(state, checkpoint_id=folder)
    set_model_state_dict(net, state["net"])
    set_optimizer_state_dict(net, opt, state["opt"])
    return state


def averaged(how, dtype, rank, ranks, out):
    """The average after each step, and losses at it; then the same again from a checkpoint."""
    batches = [share(batch, rank, ranks) for batch in make_batches(6, dtype=dtype)]
    folder, found = os.path.join(out, f"average {how}"), {}
    for start, end in ((0, 6), (0, 3), (3, 6)):
        net = wrapped(make_net(dtype=dtype), how)
        opt = make("SHBPolyak", net.parameters())
        average = heavystep.Average(opt)
        if start:
            state = load(folder, net, opt, average=average.state_dict())
            average.load_state_dict(state["average"])
        seen = []
        for batch in batches[start:end]:
            with noted_messages() as sent:
                train(net, opt, [batch])
            own = whole(net)
            with average.in_place(), torch.no_grad():
                loss, lent = loss_of(net, batch), whole(net)
            seen.append((own, lent, float(loss), len(sent), torch.equal(own, whole(net))))
        found[start, end] = seen
        if not start:
            checkpoint.save(kept(net, opt, average=average.state_dict()), checkpoint_id=folder)
    return found


@contextmanager
def processes(backend="gloo"):
    """A group of processes that do the work within, each on one thread, and leave."""
    torch.set_num_threads(1)
    distributed.init_process_group(backend)
    yield
    distributed.barrier()  # a rank that leaves early closes connections that others still use
    distributed.destroy_process_group()
    # Gloo's threads may still be releasing tensors, for which they want the interpreter: one that
    # is being torn down ends them, and with them the process (SIGABRT, once in twenty). A group
    # that nobody keeps takes its threads along (examples/train_ddp.py); FSDP's meshes keep theirs.
    os._exit(0)


def done(job, rank, ranks, out):
    """What a job finds; it is called by what is done and the format of the numbers."""
    what, dtype = job.split("/")
    plain = (bad, bounded, disagreeing, normed, outsider, own, warned)
    jobs = {job.__name__: job for job in plain}
    jobs |= {f"groups of {size}": partial(grouped, size) for size in (1, 2)}
    of_rows = {"methods": EVERY_ROW, "steps": STEPS_OF_ROWS}
    jobs |= {f"every row {how}": partial(trained, how, **of_rows) for how in ("ddp", "fsdp")}
    jobs |= {f"gpu {how}": partial(trained, how, device="cuda") for how in ("ddp", "fsdp")}
    hows = ("ddp", "fsdp", "fsdp root")
    jobs |= {f"averaged {how}": partial(averaged, how, out=out) for how in hows}
    return jobs.get(what, partial(trained, what))(getattr(torch, dtype), rank, ranks)


def main(*jobs, out):
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    found = {job: done(job, rank, ranks, out) for job in jobs}
    torch.save(found, os.path.join(out, f"{rank}.pt"))


if __name__ == "__main__":
    on_gpus = sys.argv[1].startswith("gpu")
    if on_gpus:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    with processes("nccl" if on_gpus else "gloo"):
        main(*sys.argv[1:-1], out=sys.argv[-1])
