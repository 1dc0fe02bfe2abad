"""Hugging Face Trainer trains as the literal loop does, and what cannot be right is refused."""

import pytest
import torch
from torch import nn

import heavystep
from heavystep import SLS, SHBArmijo, SHBPolyak
from tests.helpers import rounding
from tests.helpers.by_hand import assert_below_caps, bf16, by_hand, fp16, polyak, without_closure
from tests.helpers.launch import found_by
from tests.helpers.places import ROOT
from tests.helpers.training import flat, loss_of, make_batches, make_net

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
from transformers import Seq2SeqTrainer, Trainer, TrainingArguments  # noqa: E402

from heavystep.integrations.transformers import HandOverTrainer, log_steps  # noqa: E402

pytestmark = pytest.mark.slow


class Classifier(nn.Module):
    """A network that computes its loss, as Trainer asks for."""

    def __init__(self, seed=0):
        super().__init__()
        self.net = make_net(seed, torch.float64)

    def forward(self, x, labels):
        return {"loss": loss_of(self.net, (x, labels))}


class Noting(HandOverTrainer):
    """Remembers the batches, which Trainer shuffles."""

    def training_step(self, model, inputs, *args):
        self.__dict__.setdefault("seen", []).append(dict(inputs))
        return super().training_step(model, inputs, *args)


def examples(count=32):
    (x, y) = make_batches(1, size=count, dtype=torch.float64)[0]
    return [{"x": x[i], "labels": y[i]} for i in range(count)]


def trainer(folder, model, data, make=None, cls=Noting, optimizers=None, **options):
    options = {
        "max_grad_norm": 0.0,
        "lr_scheduler_type": "constant",
        "save_strategy": "no",
        "logging_strategy": "no",
    } | options
    arguments = TrainingArguments(
        str(folder), use_cpu=True, report_to=[], disable_tqdm=True,
        per_device_train_batch_size=4, dataloader_pin_memory=False, **options,
    )  # fmt: skip
    if make is not None:
        optimizers = {"optimizers": (make(model.parameters()), None)}
    return cls(model=model, args=arguments, train_dataset=data, **optimizers)


def seen_by(found):
    return [(batch["x"], batch["labels"]) for batch in found.seen]


@pytest.mark.parametrize("clip", [None, 0.05])
@without_closure
def test_accumulated_batches_are_one_batch(case, clip, tmp_path):
    """Windows of 3, 3 and 2 micro-batches, each the mean of its own."""
    model, net = Classifier(), make_net(dtype=torch.float64)
    found = trainer(
        tmp_path, model, examples(), case.make,
        gradient_accumulation_steps=3, num_train_epochs=2, max_grad_norm=clip or 0.0,
    )  # fmt: skip
    found.train()
    assert found.state.global_step == 6
    opt = case.make(net.parameters())
    for epoch in (seen_by(found)[:8], seen_by(found)[8:]):
        by_hand(net, opt, epoch, micro_batches=3, clip=clip)
    torch.testing.assert_close(flat(model.net), flat(net), rtol=0.0, atol=1e-12)
    assert_below_caps(opt)


def language_model():
    config = transformers.GPT2Config(
        vocab_size=11, n_positions=8, n_embd=8, n_layer=1, n_head=2, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config).double()
    model.loss_type = "ForCausalLM"  # by which Trainer knows that the first token is no target
    return model


def sentences(count=12):
    """Of different lengths, so that a mean of means is not the mean."""
    tokens = torch.randint(11, (count, 8), generator=torch.Generator().manual_seed(1))
    lengths = [2 + i % 7 for i in range(count)]
    return [
        {"input_ids": row, "labels": torch.where(torch.arange(8) < length, row, -100)}
        for row, length in zip(tokens, lengths, strict=True)
    ]


def by_tokens(windows):
    """One step a window: the mean over all its tokens, whoever saw them."""
    model = language_model()
    opt = polyak(model.parameters())
    for window in windows:
        targets = [batch["labels"][:, 1:].flatten() for batch in window]
        count = sum((target != -100).sum() for target in targets)
        opt.zero_grad()
        loss = sum(
            nn.functional.cross_entropy(
                model(batch["input_ids"]).logits[:, :-1].flatten(0, 1), target, reduction="sum"
            )
            for batch, target in zip(window, targets, strict=True)
        )
        (loss / count).backward()
        opt.step(loss=loss / count)
    assert_below_caps(opt)
    return flat(model)


def windows_of(seen):
    return [seen[k : k + 3] for k in range(0, len(seen), 3)]


def apart(parameters):
    """The model computes its loss in float32: of up to 24 sentences, of 7 tokens out of 11."""
    return rounding.of_a_run(3, 24 * 7 + 11, parameters)


def test_a_language_model_counts_tokens_over_all_micro_batches(tmp_path):
    model = language_model()
    found = trainer(tmp_path, model, sentences(), polyak, gradient_accumulation_steps=3)
    found.train()
    expected = by_tokens(windows_of(found.seen))
    torch.testing.assert_close(flat(model), expected, rtol=0.0, atol=apart(expected))


@pytest.mark.slow
def test_a_language_model_counts_tokens_over_all_ranks(tmp_path):
    found = found_by(2, ROOT / "tests/integrations/framework_worker.py", "transformers", tmp_path)
    assert torch.equal(found[0]["parameters"], found[1]["parameters"])
    pairs = zip(*(windows_of(rank["seen"]) for rank in found), strict=True)
    expected = by_tokens([a + b for a, b in pairs])
    torch.testing.assert_close(found[0]["parameters"], expected, rtol=0.0, atol=apart(expected))


def test_trainers_groups_and_schedule(tmp_path):
    """Trainer makes two, with and without weight decay, and its schedule drives ``lr``."""
    model = Classifier()
    chosen = {"optimizer_cls_and_kwargs": (SHBPolyak, {"momentum": 0.5})}
    found = trainer(
        tmp_path, model, examples(), optimizers=chosen, weight_decay=0.1, lr_scheduler_type="linear"
    )
    before = sum(loss_of(model.net, batch) for batch in make_batches(1, 32, dtype=torch.float64))
    found.train()
    first, second = found.optimizer.param_groups
    assert (first["weight_decay"], second["weight_decay"]) == (0.1, 0.0)
    assert first["momentum"] == 0.5
    assert first["lr"] == 0.0  # at the end of the schedule
    assert sum(loss_of(model.net, b) for b in make_batches(1, 32, dtype=torch.float64)) < before


def test_a_warm_up_begins_with_a_step_of_length_zero(tmp_path):
    model, net = Classifier(), make_net(dtype=torch.float64)
    found = trainer(
        tmp_path, model, examples(), polyak, lr_scheduler_type="constant_with_warmup",
        warmup_steps=4,
    )  # fmt: skip
    found.train()
    opt = polyak(net.parameters())
    for k, batch in enumerate(seen_by(found)):
        opt.param_groups[0]["lr"] = min(k / 4, 1.0)
        by_hand(net, opt, [batch])
    torch.testing.assert_close(flat(model.net), flat(net), rtol=0.0, atol=1e-12)
    assert_below_caps(opt)


class Scaled(Noting):
    """In float16, which Trainer offers on a GPU only."""

    def compute_loss_context_manager(self):
        return fp16()


@pytest.mark.parametrize("scale", [2.0**10, 2.0**40])
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_a_grad_scaler_is_invisible(scale, micro_batches, tmp_path):
    """The larger scale overflows at first: steps are skipped, and so are their losses."""
    options = {"device": "cpu", "init_scale": scale, "backoff_factor": 2.0**-8}
    models = [Classifier().float(), Classifier().float()]
    data = [{**example, "x": example["x"].float()} for example in examples(96)]
    found = trainer(
        tmp_path, models[0], data, polyak, cls=Scaled, gradient_accumulation_steps=micro_batches
    )
    found.accelerator.scaler = torch.amp.GradScaler(**options)
    found.train()
    opt = polyak(models[1].parameters())
    by_hand(
        models[1].net, opt, seen_by(found), scaler=torch.amp.GradScaler(**options),
        micro_batches=micro_batches, context=fp16,
    )  # fmt: skip
    assert torch.equal(flat(models[0]), flat(models[1]))  # the same operations in the same order
    assert (found.accelerator.scaler.get_scale() < scale) == (scale == 2.0**40)
    assert_below_caps(opt)


def test_a_resumed_run_is_the_uninterrupted_one(tmp_path):
    options = {
        "num_train_epochs": 3,
        "gradient_accumulation_steps": 2,
        "lr_scheduler_type": "linear",
    }

    def make(params):
        return SHBPolyak(params, weight_decay=0.01)

    model = Classifier()
    saving = {"save_strategy": "steps", "save_steps": 5}
    trainer(tmp_path, model, examples(), make, **options, **saving).train()
    resumed = Classifier(seed=5)
    found = trainer(tmp_path / "again", resumed, examples(), SHBPolyak, **options)
    found.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))
    assert found.state.global_step == 12
    assert torch.equal(flat(resumed), flat(model))


class Interrupted(Noting):
    """Stops once, at the fifth micro-batch, before or while it works on it."""

    between, error = True, KeyboardInterrupt("stop")

    def training_step(self, model, inputs, *args):
        if self.between and len(self.__dict__.get("seen", [])) == 4:
            self.seen.append(None)
            raise self.error
        return super().training_step(model, inputs, *args)

    def compute_loss(self, *args, **kwargs):
        if not self.between and len(self.seen) == 5:
            raise self.error
        return super().compute_loss(*args, **kwargs)


class OutOfMemory(Interrupted):
    """Trainer then begins anew by itself, with smaller batches."""

    between, error = False, RuntimeError("CUDA out of memory.")


@pytest.mark.parametrize(
    ("cls", "options"), [(Interrupted, {}), (OutOfMemory, {"auto_find_batch_size": True})]
)
def test_an_interrupted_run_leaves_no_losses_behind(cls, options, tmp_path):
    model, net = Classifier(), make_net(dtype=torch.float64)
    options = {"gradient_accumulation_steps": 3, "num_train_epochs": 1} | options
    found = trainer(tmp_path, model, examples(), polyak, cls=cls, **options)
    if cls.between:
        with pytest.raises(KeyboardInterrupt):
            found.train()
    found.train()
    done, again = found.seen[:3], found.seen[5:]
    opt = polyak(net.parameters())
    for batches in (done, again):
        by_hand(net, opt, [(batch["x"], batch["labels"]) for batch in batches], micro_batches=3)
    torch.testing.assert_close(flat(model.net), flat(net), rtol=0.0, atol=1e-12)
    assert_below_caps(opt)


def test_bfloat16(tmp_path):
    model, net, (whole,) = Classifier().float(), make_net(), make_batches(1, size=32)
    data = [{"x": x, "labels": y} for x, y in zip(*whole, strict=True)]
    before = loss_of(model.net, whole).item()
    found = trainer(tmp_path, model, data, polyak, bf16=True, num_train_epochs=5)
    found.train()
    opt = polyak(net.parameters())
    by_hand(net, opt, seen_by(found), context=bf16)
    assert torch.equal(flat(model.net), flat(net))  # the same operations in the same order
    assert loss_of(model.net, whole).item() < 0.5 * before
    assert_below_caps(opt)


@pytest.mark.parametrize("cls", [SHBArmijo, SLS])
def test_line_searches_are_refused(cls, tmp_path):
    ways = [
        {"optimizers": (cls(Classifier().parameters()), None)},
        {"optimizer_cls_and_kwargs": (cls, {})},
    ]
    for optimizers in ways:
        with pytest.raises(TypeError, match=rf"{cls.__name__} needs a closure, .* use SHBPolyak"):
            trainer(tmp_path, Classifier(), examples(), optimizers=optimizers)


@pytest.mark.parametrize("schedule", [{}, {"lr_scheduler_type": "linear", "warmup_steps": 2}])
def test_trainer_alone_is_an_error(schedule, tmp_path):
    model = Classifier()
    before = flat(model)
    found = trainer(tmp_path, model, examples(), SHBPolyak, cls=Trainer, **schedule)
    with pytest.raises(ValueError, match=r"needs the loss: .*heavystep\.integrations"):
        found.train()
    assert torch.equal(flat(model), before)


def test_a_plain_trainer_learns_the_loss_from_the_model(tmp_path):
    """Windows of 3, 3 and 2 micro-batches, each the mean of its own."""
    model, again = Classifier(), Classifier()
    options = {"gradient_accumulation_steps": 3, "num_train_epochs": 2}
    trainer(tmp_path, model, examples(), polyak, **options).train()
    attached = {"optimizers": (heavystep.attach(again, polyak(again.parameters())), None)}
    trainer(tmp_path, again, examples(), cls=Trainer, optimizers=attached, **options).train()
    torch.testing.assert_close(flat(again), flat(model), rtol=0.0, atol=1e-12)


def test_a_plain_trainer_counts_tokens_over_all_micro_batches(tmp_path):
    models = [language_model(), language_model()]
    trainer(tmp_path, models[0], sentences(), polyak, gradient_accumulation_steps=3).train()
    attached = {"optimizers": (heavystep.attach(models[1], polyak(models[1].parameters())), None)}
    options = {"optimizers": attached, "gradient_accumulation_steps": 3}
    trainer(tmp_path, models[1], sentences(), cls=Trainer, **options).train()
    torch.testing.assert_close(flat(models[1]), flat(models[0]), rtol=0.0, atol=1e-12)


def test_the_step_is_logged_before_anything_is_written(tmp_path):
    class Writer(transformers.TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            rows.append(dict(logs))

    rows, model = [], Classifier()
    found = trainer(tmp_path, model, examples(), polyak, logging_strategy="steps", logging_steps=2)
    found.add_callback(Writer())
    log_steps(found)
    found.train()
    steps = [row["heavystep/step"] for row in rows if "loss" in row]
    assert len(steps) == found.state.global_step // 2
    assert steps[-1] == found.optimizer.optimizer.info.step > 0
    assert [row["heavystep/step"] for row in found.state.log_history if "loss" in row] == steps


def test_other_optimizers_and_trainers(tmp_path):
    class Mine(HandOverTrainer, Seq2SeqTrainer):
        pass

    arguments = transformers.Seq2SeqTrainingArguments(
        str(tmp_path), use_cpu=True, report_to=[], disable_tqdm=True, logging_strategy="no",
        save_strategy="no", dataloader_pin_memory=False,
    )  # fmt: skip
    for make in (SHBPolyak, lambda params: torch.optim.SGD(params, lr=0.1)):
        model = Classifier()
        found = Mine(
            model=model, args=arguments, train_dataset=examples(8),
            optimizers=(make(model.parameters()), None),
        )  # fmt: skip
        before = flat(model)
        found.train()
        assert not torch.equal(flat(model), before)
