"""What is particular to Hugging Face's Trainer; the rest is in ``test_frameworks.py``."""

import pytest
import torch
from torch import nn

import heavystep
from heavystep import SHBPolyak
from tests.helpers import rounding
from tests.helpers.by_hand import assert_below_caps, by_hand, polyak
from tests.helpers.training import flat, loss_of, make_batches, make_net
from tests.integrations.frameworks import Classifier, hugging_face

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
from transformers import Trainer  # noqa: E402

from heavystep.integrations.transformers import HandOverTrainer, log_steps  # noqa: E402

pytestmark = pytest.mark.slow
(WHOLE,) = make_batches(1, size=32, dtype=torch.float64)
EXAMPLES = [{"x": x, "labels": y} for x, y in zip(*WHOLE, strict=True)]
BATCHES = list(zip(*(part.split(4) for part in WHOLE), strict=True))


def classifier(seed=0):
    return Classifier(make_net(seed, torch.float64))


def trainer(folder, model, make=None, arguments=None, **options):
    """On batches of four examples."""
    opt = None if make is None else make(model.parameters())
    arguments = {"per_device_train_batch_size": 4, **(arguments or {})}
    return hugging_face(folder, model, EXAMPLES, opt, arguments=arguments, **options)


def language_model():
    config = transformers.GPT2Config(
        vocab_size=11, n_positions=8, n_embd=8, n_layer=1, n_head=2, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config).double()
    model.loss_type = "ForCausalLM"  # by which Trainer knows that the first token is no target
    return model


def sentences():
    """Of different lengths, so that a mean of means is not the mean."""
    tokens = torch.randint(11, (12, 8), generator=torch.Generator().manual_seed(1))
    lengths = [2 + i % 7 for i in range(12)]
    return [
        {"input_ids": row, "labels": torch.where(torch.arange(8) < length, row, -100)}
        for row, length in zip(tokens, lengths, strict=True)
    ]


def speaking(folder, model, opt, **options):
    """A Trainer of a language model: three steps, each with all sentences in micro-batches."""
    arguments = {
        "per_device_train_batch_size": 4, "gradient_accumulation_steps": 3, "num_train_epochs": 3,
    }  # fmt: skip
    return hugging_face(folder, model, sentences(), opt, arguments=arguments, **options)


def assert_by_tokens(found):
    """Each step is that of the mean over all tokens, whoever saw them."""
    model, rows = language_model(), sentences()
    tokens, labels = (torch.stack([row[name] for row in rows]) for name in ("input_ids", "labels"))
    opt = polyak(model.parameters())
    for _ in range(3):
        opt.zero_grad()
        logits = model(tokens).logits[:, :-1].flatten(0, 1)
        loss = nn.functional.cross_entropy(logits, labels[:, 1:].flatten())
        loss.backward()
        opt.step(loss=loss)
    assert_below_caps(opt)
    # The model computes its loss in float32: of 12 sentences, of 7 tokens out of 11.
    apart = rounding.of_a_run(3, 12 * 7 + 11, flat(model))
    torch.testing.assert_close(found, flat(model), rtol=0.0, atol=apart)


@pytest.mark.parametrize("attached", [False, True])
def test_a_language_model_counts_tokens_over_all_micro_batches(attached, tmp_path):
    model = language_model()
    opt = polyak(model.parameters())
    if attached:
        opt = heavystep.attach(model, opt)
    speaking(tmp_path, model, opt, cls=Trainer if attached else None).train()
    assert_by_tokens(flat(model))


def test_trainers_groups_and_schedule(tmp_path):
    """Trainer makes two, with and without weight decay, and its schedule drives ``lr``."""
    model = classifier()
    arguments = {"weight_decay": 0.1, "lr_scheduler_type": "linear"}
    chosen = {"optimizer_cls_and_kwargs": (SHBPolyak, {"momentum": 0.5})}
    found = trainer(tmp_path, model, arguments=arguments, **chosen)
    before = loss_of(model.net, WHOLE)
    found.train()
    first, second = found.optimizer.param_groups
    assert (first["weight_decay"], second["weight_decay"]) == (0.1, 0.0)
    assert first["momentum"] == 0.5
    assert first["lr"] == 0.0  # at the end of the schedule
    assert loss_of(model.net, WHOLE) < before


class Interrupted(HandOverTrainer):
    """Stops once, at the fifth micro-batch."""

    def training_step(self, model, inputs, *args):
        seen = self.__dict__.setdefault("seen", [])
        if len(seen) == 4:
            seen.append(None)
            raise KeyboardInterrupt("stop")
        seen.append((inputs["x"], inputs["labels"]))
        return super().training_step(model, inputs, *args)


def test_an_interrupted_run_leaves_no_losses_behind(tmp_path):
    model, net = classifier(), make_net(dtype=torch.float64)
    arguments = {"gradient_accumulation_steps": 3}
    found = trainer(tmp_path, model, polyak, cls=Interrupted, arguments=arguments)
    with pytest.raises(KeyboardInterrupt):
        found.train()
    found.train()
    opt = polyak(net.parameters())
    for batches in (found.seen[:3], found.seen[5:]):
        by_hand(net, opt, batches, micro_batches=3)
    torch.testing.assert_close(flat(model.net), flat(net), rtol=0.0, atol=1e-12)
    assert_below_caps(opt)


def test_trainer_alone_is_an_error(tmp_path):
    model = classifier()
    before = flat(model)
    schedule = {"lr_scheduler_type": "linear", "warmup_steps": 2}  # which begins at 0
    with pytest.raises(ValueError, match=r"needs the loss: .*heavystep\.integrations"):
        trainer(tmp_path, model, SHBPolyak, cls=Trainer, arguments=schedule).train()
    assert torch.equal(flat(model), before)


def test_the_step_is_logged_before_anything_is_written(tmp_path):
    class Writer(transformers.TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            rows.append(dict(logs))

    rows, arguments = [], {"logging_strategy": "steps", "logging_steps": 2}
    found = trainer(tmp_path, classifier(), polyak, arguments=arguments)
    found.add_callback(Writer())
    log_steps(found)
    found.train()
    steps = [row["heavystep/step"] for row in rows if "loss" in row]
    assert len(steps) == found.state.global_step // 2
    assert steps[-1] == found.optimizer.optimizer.info.step > 0
    assert [row["heavystep/step"] for row in found.state.log_history if "loss" in row] == steps
