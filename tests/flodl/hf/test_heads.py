"""Task heads of switched models against the pipelines of transformers on the original models."""

import copy
import dataclasses
import warnings

import pytest
import torch

import flodl
import flodl.hf
from tests.flodl.hf.texts import TEXTS, model, tokenizer

pytestmark = [pytest.mark.torch, pytest.mark.slow]
FAMILIES = ["Bert", "DistilBert", "Roberta"]
PAIRS = [("where does anna live ?", TEXTS[1]), ("what is deep ?", TEXTS[0])]


@pytest.fixture
def texts(library):
    return tokenizer(library)


def headed(plain, texts):
    """Return the head of a switched copy, in train mode as in the middle of a training."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the porter keeps")
        return flodl.hf.head(flodl.hf.graph(copy.deepcopy(plain).train()), texts)


def made(library, texts, kind, family="Bert", **more):
    plain = model(library, family, kind, texts, **more)
    return plain, headed(plain, texts)


def as_pairs(rows):
    return [[dataclasses.astuple(each) for each in row] for row in rows]


@pytest.mark.parametrize("family", FAMILIES)
def test_predict_equals_the_pipeline(library, texts, family):
    plain, head = made(library, texts, "ForSequenceClassification", family)
    pipeline = library.pipeline("text-classification", model=plain, tokenizer=texts, device="cpu")
    for top_k in (None, 2):
        expected = [
            [(each["label"], each["score"]) for each in row]
            for row in pipeline(TEXTS, top_k=top_k)
        ]
        assert as_pairs(head.predict(TEXTS, top_k=top_k)) == expected
        assert all(row == sorted(row, key=lambda each: -each[1]) for row in expected)
    assert head.predict([]) == []


@pytest.mark.parametrize(
    "more", [{"problem_type": "regression", "num_labels": 1}, {"problem_type": "multi_label_classification"}]
)  # fmt: skip
def test_predict_other_problem_types_equal_the_pipeline(library, texts, more):
    plain, head = made(library, texts, "ForSequenceClassification", **more)
    pipeline = library.pipeline("text-classification", model=plain, tokenizer=texts, device="cpu")
    expected = pipeline({"text": TEXTS[0], "text_pair": TEXTS[1]}, top_k=None)
    (found,) = head.predict([(TEXTS[0], TEXTS[1])])
    assert [(each.label, each.score) for each in found] == [
        (each["label"], each["score"]) for each in expected
    ]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("groups", ["none", "simple", "average"])
def test_tokens_equal_the_pipeline(library, texts, family, groups):
    plain, head = made(library, texts, "ForTokenClassification", family)
    pipeline = library.pipeline(
        "token-classification", model=plain, tokenizer=texts, aggregation_strategy=groups, device="cpu"
    )  # fmt: skip
    expected = pipeline(TEXTS)
    found = head.tokens(TEXTS, groups=groups)
    key = "entity" if groups == "none" else "entity_group"
    assert as_pairs(found) == [
        [
            (each[key], each["score"], each["word"], each.get("index"), each["start"], each["end"])
            for each in row
        ]
        for row in expected
    ]
    assert {each.index is None for row in found for each in row} == {groups != "none"}


@pytest.mark.filterwarnings(
    "ignore:__array__ implementation:DeprecationWarning"
)  # of the pipeline
@pytest.mark.parametrize("family", FAMILIES)
def test_answer_equals_the_pipeline(library, texts, family):
    plain, head = made(library, texts, "ForQuestionAnswering", family)
    pipeline = library.pipeline("question-answering", model=plain, tokenizer=texts, device="cpu")
    for top_k in (1, 3):
        for asked in (PAIRS, PAIRS[:1]):
            found = head.answer(asked, top_k=top_k, max_answer_len=4)
            expected = [
                pipeline(question=question, context=context, top_k=top_k, max_answer_len=4)
                for question, context in asked
            ]
            assert as_pairs(found) == [
                [
                    (each["answer"], each["score"], each["start"], each["end"])
                    for each in (row if isinstance(row, list) else [row])
                ]
                for row in expected
            ]
    first = head.answer(PAIRS)[0][0]
    assert PAIRS[0][1][first.start : first.end] == first.answer != ""


@pytest.mark.parametrize("family", FAMILIES)
def test_fill_mask_equals_the_pipeline(library, texts, family):
    plain, head = made(library, texts, "ForMaskedLM", family)
    pipeline = library.pipeline("fill-mask", model=plain, tokenizer=texts, device="cpu")
    for text, masks in (("the sky is [MASK]", 1), ("[MASK] lives in [MASK]", 2)):
        found = head.fill_mask(text, top_k=3)
        expected = pipeline(text, top_k=3)
        rows = [expected] if masks == 1 else expected
        assert as_pairs(found) == [
            [(each["token_str"], each["score"], each["token"], each["sequence"]) for each in row]
            for row in rows
        ]
        assert [len(row) for row in found] == [3] * masks


def test_predict_leaves_modes_and_gradients_as_they_were(library, texts):
    _, head = made(library, texts, "ForSequenceClassification")
    head.model.bert.encoder.eval()
    before = [each.training for each in head.model.modules()]
    head.predict(TEXTS)
    assert [each.training for each in head.model.modules()] == before
    with pytest.raises(ValueError, match="function_to_apply"):
        head.predict(TEXTS, function_to_apply=3)
    assert [each.training for each in head.model.modules()] == before
    batch = texts(TEXTS, return_tensors="pt", padding=True)
    assert head.compute_loss(batch, torch.tensor([0, 1, 2, 0])).requires_grad


def test_compute_loss_has_the_bits_of_the_original(library, texts):
    batch = texts(TEXTS, return_tensors="pt", padding=True)
    for kind, labels in (
        ("ForSequenceClassification", torch.tensor([0, 1, 2, 0])),
        ("ForTokenClassification", batch["input_ids"] % 3),
        ("ForMaskedLM", batch["input_ids"]),
    ):
        plain, head = made(library, texts, kind)
        losses = []
        torch.manual_seed(3)
        losses.append(plain.train()(**batch, labels=labels).loss)
        torch.manual_seed(3)
        losses.append(head.compute_loss(batch, labels))
        torch.manual_seed(3)
        losses.append(head.compute_loss({**batch, "labels": labels}))
        assert torch.equal(losses[0], losses[1])
        assert torch.equal(losses[0], losses[2])
        for each in losses[:2]:
            each.backward()
        pairs = zip(plain.parameters(), head.model.parameters(), strict=True)
        assert all(torch.equal(a.grad, b.grad) for a, b in pairs if a.grad is not None)


def test_compute_loss_of_answers_takes_positions(library, texts):
    plain, head = made(library, texts, "ForQuestionAnswering")
    batch = dict(texts(*PAIRS[0], return_tensors="pt"))
    batch |= {"start_positions": torch.tensor([3]), "end_positions": torch.tensor([4])}
    head.model.eval()
    assert torch.equal(head.compute_loss(batch), plain(**batch).loss)


@pytest.mark.parametrize("switched", [True, False])
def test_setup_head_trains_a_head(library, texts, switched):
    plain, head = made(library, texts, "ForSequenceClassification")
    if not switched:
        head = flodl.hf.head(copy.deepcopy(plain), texts)
    session = flodl.Trainer.setup_head(head, lambda params: torch.optim.SGD(params, lr=0.05))
    assert session.model is head.graph() is head.model
    by_hand = torch.optim.SGD(plain.parameters(), lr=0.05)
    batch, labels = texts(TEXTS, return_tensors="pt", padding=True), torch.tensor([0, 1, 2, 0])
    for seed in range(3):
        torch.manual_seed(seed)
        plain.train()(**batch, labels=labels).loss.backward()
        by_hand.step()
        by_hand.zero_grad()
        torch.manual_seed(seed)
        head.compute_loss(batch, labels).backward()
        assert session.step()
    for one, other in zip(plain.parameters(), head.model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("method", "asked", "auto"),
    [
        ("tokens", TEXTS, "AutoModelForTokenClassification"),
        ("answer", PAIRS, "AutoModelForQuestionAnswering"),
        ("fill_mask", "the [MASK]", "AutoModelForMaskedLM"),
    ],
)
def test_head_of_another_task_names_what_it_has_and_what_to_type(
    library, texts, method, asked, auto
):
    head = flodl.hf.head(model(library, "Bert", "ForSequenceClassification", texts), texts)
    words = rf"{method} needs .* BertForSequenceClassification is none; it has predict; .*{auto}"
    with pytest.raises(flodl.hf.HuggingFaceError, match=words):
        getattr(head, method)(asked)


def test_head_without_tokenizer_says_how_to_give_one(library, texts):
    head = flodl.hf.head(model(library, "Bert", "ForSequenceClassification", texts))
    with pytest.raises(flodl.hf.HuggingFaceError, match=r"no tokenizer; type: flodl.hf.head\("):
        head.predict(TEXTS)


def test_fill_mask_without_a_mask_says_which_one_is_missing(library, texts):
    plain = model(library, "Bert", "ForMaskedLM", texts)
    with pytest.raises(flodl.hf.HuggingFaceError, match=r"has no \[MASK\].*write \[MASK\]"):
        flodl.hf.head(plain, texts).fill_mask("the sky")
    bare = tokenizer(library, mask_token=None)
    with pytest.raises(
        flodl.hf.HuggingFaceError, match=r"has no mask token.*tokenizer\.mask_token"
    ):
        flodl.hf.head(plain, bare).fill_mask("the [MASK]")


def test_compute_loss_without_labels_says_what_to_type(library, texts):
    head = flodl.hf.head(model(library, "Bert", "ForSequenceClassification", texts), texts)
    batch = texts(TEXTS, return_tensors="pt", padding=True)
    with pytest.raises(flodl.hf.HuggingFaceError, match=r"head.compute_loss\(batch, labels\)"):
        head.compute_loss(batch)


def test_head_of_other_things_is_refused(library):
    with pytest.raises(
        flodl.hf.HuggingFaceError, match="takes a model of transformers, not Linear"
    ):
        flodl.hf.head(torch.nn.Linear(2, 1))
    with pytest.raises(TypeError, match="takes pairs of a question and its context, not 'one'"):
        flodl.hf.Head(torch.nn.Linear(2, 1), None).answer(["one"])
