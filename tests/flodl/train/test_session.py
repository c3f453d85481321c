"""`Trainer.setup`: a loop of one's own with `model.step()` computes what the loop by hand computes."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from flodl import (
    CosineScheduler,
    Flow,
    FlowBuilder,
    FlowModule,
    Graph,
    GraphError,
    Trainer,
    TrainingError,
)

pytestmark = pytest.mark.torch

X = torch.linspace(-1, 1, 40 * 3).reshape(40, 3)
BATCHES = list(zip(X.split(8), X.square().sum(1, keepdim=True).split(8), strict=True))


def graph():
    torch.manual_seed(0)
    return (
        FlowBuilder.from_(nn.Linear(3, 6))
        .through(nn.Tanh())
        .through(nn.Linear(6, 1))
        .label("m")
        .build()
    )


def sgd(params):
    return torch.optim.SGD(params, lr=0.05, momentum=0.9)


def train(model, session, epochs=2, batches=BATCHES):
    losses = []
    for epoch in range(epochs):
        for x, y in batches:
            with session.autocast():
                loss = F.mse_loss(model(x), y)
            session.backward(loss)
            model.step()
            losses.append(loss.item())
        session.end_epoch(epoch)
    return losses


def by_hand(clip=None, accumulate=1, schedule=None):
    model = graph()
    optimizer = sgd(model.parameters())
    losses, updates = [], 0
    for index, (x, y) in enumerate(BATCHES * 2):
        if schedule and index % accumulate == 0:
            schedule.apply(optimizer, updates)
        loss = F.mse_loss(model(x), y)
        (loss / accumulate).backward()
        losses.append(loss.item())
        if index % accumulate == accumulate - 1:
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            optimizer.zero_grad()
            updates += 1
    return losses


@pytest.mark.parametrize(
    ("options", "reference"),
    [
        ({}, {}),
        ({"max_grad_norm": 0.3}, {"clip": 0.3}),
        ({"accumulate": 2}, {"accumulate": 2}),
        (
            {"scheduler": CosineScheduler(0.1, 0.0, 10)},
            {"schedule": CosineScheduler(0.1, 0.0, 10)},
        ),
    ],
    ids=str,
)
def test_it_computes_what_a_loop_by_hand_computes(options, reference):
    model = graph()
    session = Trainer.setup(model, sgd, **options)
    assert train(model, session) == by_hand(**reference)


def test_a_builder_of_the_model_may_stand_between():
    model = graph()
    session = Trainer.setup(model, lambda device: graph(), sgd)
    assert train(model, session) == by_hand()
    for wrong in ((), (1, 2, 3)):
        with pytest.raises(TrainingError, match="setup takes the model"):
            Trainer.setup(model, *wrong)
    with pytest.raises(TrainingError, match="setup prepares a module"):
        Trainer.setup(3, sgd)


def test_setup_optimizer_of_another_model_raises():
    model, other = graph(), graph()
    with pytest.raises(TrainingError, match="holds no parameter of the Graph"):
        Trainer.setup(model, sgd(other.parameters()))
    with pytest.raises(TrainingError, match="holds no parameter of the Graph"):
        Trainer.setup(model, lambda params: sgd(other.parameters()))


def test_without_setup_there_is_no_step():
    with pytest.raises(GraphError, match=r"Graph is not set up for training: call Trainer\.setup"):
        graph().step()
    model = graph()
    Trainer.setup(model, sgd)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with pytest.raises(GraphError, match="not set up"):
            twin.step()


class Net(FlowModule):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 1)

    def flow(self, x: Flow) -> Flow:
        return x.through(self.fc)


def test_a_flow_module_and_any_module():
    for model in (Net(), nn.Linear(3, 1)):
        session = Trainer.setup(model, sgd)
        for x, y in BATCHES:
            F.mse_loss(model(x), y).backward()
            assert session.step()
        assert session.training_step == 5


def test_a_class_may_have_a_step_of_its_own():
    class Cell(Net):
        def step(self, x):
            return x + 1

    model = Cell()
    session = Trainer.setup(model, sgd)
    assert model.step(1) == 2
    F.mse_loss(model(BATCHES[0][0]), BATCHES[0][1]).backward()
    assert session.step()


class Head(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body
        self.top = nn.Linear(1, 1)

    def graph(self):
        return self.body

    def forward(self, x):
        return self.top(self.body(x))


def test_a_head_around_a_graph():
    head = Head(graph())
    session = Trainer.setup_head(head, lambda device: Head(graph()), sgd)
    before = head.top.weight.clone()
    F.mse_loss(head(BATCHES[0][0]), BATCHES[0][1]).backward()
    assert head.graph().step()
    assert not torch.equal(before, head.top.weight)
    assert session.model is head
    with pytest.raises(TrainingError, match="setup_head prepares a module"):
        Trainer.setup_head(3, sgd)


class PlainHead(nn.Module):
    """A head as transformers writes them: no graph() and possibly no graph inside."""

    def __init__(self, body):
        super().__init__()
        self.bert = body
        self.classifier = nn.Linear(1, 1)

    def forward(self, x):
        return self.classifier(self.bert(x))


@pytest.mark.parametrize("body", [graph, lambda: nn.Linear(3, 1)], ids=["graph", "plain"])
def test_setup_head_takes_a_head_without_graph_method(body):
    head = PlainHead(body())
    session = Trainer.setup_head(head, sgd)
    for step in (session.step, *([head.bert.step] if isinstance(head.bert, Graph) else [])):
        before = head.classifier.weight.clone()
        F.mse_loss(head(BATCHES[0][0]), BATCHES[0][1]).backward()
        assert step()
        assert not torch.equal(before, head.classifier.weight)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision(precision):
    model = graph()
    losses = train(model, Trainer.setup(model, sgd, precision=precision), epochs=6)
    assert sum(losses[-5:]) < sum(losses[:5])


class Add(nn.Module):
    def forward(self, x, before):
        return x + before


def test_a_graph_that_remembers_is_cut_between_steps():
    model = (
        FlowBuilder.from_(nn.Linear(3, 3)).through(Add()).using("before").tag("before")
        .through(nn.Linear(3, 1)).build()
    )  # fmt: skip
    session = Trainer.setup(model, sgd)
    assert len(train(model, session, epochs=3)) == 15


def test_rates_can_be_set():
    model = graph()
    session = Trainer.setup(model, sgd)
    model.set_lr(0.5)
    assert session.optimizer.param_groups[0]["lr"] == 0.5
    model.set_scheduler(CosineScheduler(0.2, 0.2, 5))
    session.set_lr_scale(0.5)
    F.mse_loss(model(BATCHES[0][0]), BATCHES[0][1]).backward()
    model.step()
    assert session.optimizer.param_groups[0]["lr"] == 0.1


def test_data_belongs_to_the_session():
    model = graph()
    session = Trainer.setup(model, sgd, data=[X, X.sum(1, keepdim=True)], batch_size=8, seed=3)
    first = [batch[0] for batch in session.batches(1)]
    assert len(first) == 5
    assert torch.equal(next(session.batches(1, start=4))[0], first[4])
    assert session.to_device({"a": [X]})["a"][0] is X
    with pytest.raises(TrainingError, match="there is no data"):
        Trainer.setup(model, sgd).batches(0)


def test_it_is_saved_and_continued(tmp_path):
    def prepared():
        model = graph()
        options = {"accumulate": 3, "ema": 0.9, "scheduler": CosineScheduler(0.1, 0.0, 10)}
        return model, Trainer.setup(model, sgd, **options)

    model, session = prepared()
    first = train(model, session, epochs=1)
    session.save(tmp_path / "s.fdl", epoch=1, extra={"note": "half"})
    rest = train(model, session, epochs=1)
    model, session = prepared()
    resumed = session.resume(tmp_path / "s.fdl")
    assert (resumed.epoch, resumed.extra["note"], len(first)) == (1, "half", 5)
    assert train(model, session, epochs=1) == rest


def scaled_by_hand(model, optimizer, scaler):
    losses = []
    for x, y in BATCHES:
        loss = F.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, scaler.get_scale()


def test_a_scaler_of_ones_own_is_the_one_that_scales():
    def own():
        return torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

    model = graph()
    wanted = scaled_by_hand(model, sgd(model.parameters()), own())

    model, scaler, losses = graph(), own(), []
    session = Trainer.setup(model, sgd, max_grad_norm=0.5, scaler=scaler)
    for x, y in BATCHES:
        loss = F.mse_loss(model(x), y)
        session.backward(loss)
        model.step()
        losses.append(loss.item())
    assert (losses, scaler.get_scale()) == wanted

    scaler, losses = own(), []
    (
        Trainer.builder(graph, sgd, lambda model, batch: F.mse_loss(model(batch[0]), batch[1]))
        .dataset(BATCHES)
        .max_grad_norm(0.5)
        .scaler(scaler)
        .step("eager")
        .fused(False)
        .progress(False)
        .on("step", lambda _, loss: losses.append(loss.item()))
        .run()
        .join()
    )
    assert (losses, scaler.get_scale()) == wanted
    assert scaler.get_scale() > 8.0


def test_a_closure_is_what_the_optimizer_calls():
    x, y = BATCHES[0]

    def lbfgs(params):
        return torch.optim.LBFGS(params, max_iter=4)

    def closure_of(model, optimizer, losses):
        def closure():
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            losses.append(loss.item())
            return loss

        return closure

    wanted, losses = [], []
    model = graph()
    optimizer = lbfgs(model.parameters())
    closure = closure_of(model, optimizer, wanted)
    for _ in range(3):
        optimizer.step(closure)
    model = graph()
    session = Trainer.setup(model, lbfgs)
    closure = closure_of(model, session.optimizer, losses)
    for _ in range(3):
        assert session.step(closure)
    assert losses == wanted
    assert len(losses) > 3
    assert session.training_step == 3
    with pytest.raises(TrainingError, match="clip them in the closure"):
        Trainer.setup(model, lbfgs, max_grad_norm=1.0).step(closure)


def test_parts_in_eval_mode_stay_in_it():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3).eval())
    Trainer.setup(model, sgd)
    assert model.training
    assert not model[1].training
    model.eval()
    Trainer.setup(model, sgd)
    assert model[1].training
