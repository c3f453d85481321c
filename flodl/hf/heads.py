"""Task heads by their tasks: labels of texts and tokens, answers, filled masks, and the loss.

`BertForSequenceClassification` and its tokenizer -> `head.predict(["a text"])`.  The pipelines of
transformers compute the results, so that they are equal to theirs; here are the types and the modes.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

from torch import Tensor, nn

from flodl.hf.cache import HuggingFaceError, require


@final
@dataclass(frozen=True, slots=True)
class LabelScore:
    """A label of a text.

    Attributes:
        label: the name, by `model.config.id2label`.
        score: its probability; for a regression the value itself.

    Example:
        >>> from flodl.hf import LabelScore
        >>> LabelScore("good", 0.9).label
        'good'
    """

    label: str
    score: float


@final
@dataclass(frozen=True, slots=True)
class TokenLabel:
    """A label of a token, or of a group of tokens.

    Attributes:
        label: the name, by `model.config.id2label`.
        score: its probability.
        word: the token, or the text of the group.
        index: the place among the tokens, counted from 0; None for a group.
        start: the first character in the text; None if the tokenizer does not know it.
        end: the character behind the last one, or None.

    Example:
        >>> from flodl.hf import TokenLabel
        >>> TokenLabel("PLACE", 0.9, "rome", index=3, start=11, end=15).word
        'rome'
    """

    label: str
    score: float
    word: str
    index: int | None
    start: int | None
    end: int | None


@final
@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a question, as a part of the context.

    Attributes:
        answer: the text.
        score: its probability.
        start: the first character in the context.
        end: the character behind the last one.

    Example:
        >>> from flodl.hf import Answer
        >>> Answer("rome", 0.9, start=10, end=14).answer
        'rome'
    """

    answer: str
    score: float
    start: int
    end: int


@final
@dataclass(frozen=True, slots=True)
class Filling:
    """A token in the place of a mask.

    Attributes:
        word: the token as text.
        score: its probability.
        token: its number in the vocabulary.
        text: the whole text with the token.

    Example:
        >>> from flodl.hf import Filling
        >>> Filling("blue", 0.9, token=7, text="the sky is blue").word
        'blue'
    """

    word: str
    score: float
    token: int
    text: str


@final
@dataclass(frozen=True, slots=True)
class _Task:
    method: str
    does: str
    pipeline: str
    mapping: str
    auto: str

    def models(self) -> set[str]:
        """Return the names of the classes that have a head for the task."""
        table: Any = importlib.import_module("transformers.models.auto.modeling_auto")
        named = vars(table)[self.mapping].values()
        return {name for each in named for name in ((each,) if isinstance(each, str) else each)}


_PREDICT = _Task(
    "predict",
    "classifies texts",
    "TextClassificationPipeline",
    "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
    "AutoModelForSequenceClassification",
)
_TOKENS = _Task(
    "tokens",
    "labels tokens",
    "TokenClassificationPipeline",
    "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES",
    "AutoModelForTokenClassification",
)
_ANSWER = _Task(
    "answer",
    "answers questions",
    "QuestionAnsweringPipeline",
    "MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES",
    "AutoModelForQuestionAnswering",
)
_FILL = _Task(
    "fill_mask",
    "fills masks",
    "FillMaskPipeline",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "AutoModelForMaskedLM",
)


@final
class Head:
    """A model of transformers with its tokenizer, by its task: made by `flodl.hf.head`.

    Each method runs the model in eval mode and without gradients, and leaves the modes as they were.
    `compute_loss` alone keeps both, for training.

    Attributes:
        model: the model.
        tokenizer: its tokenizer, or None.

    Example:
        >>> import torch
        >>> from flodl.hf import Head
        >>> Head(torch.nn.Linear(2, 1), None).tokenizer is None
        True
    """

    def __init__(self, model: nn.Module, tokenizer: Any) -> None:
        self.model = model
        self.tokenizer = tokenizer

    def __repr__(self) -> str:
        return f"Head({type(self.model).__name__}, {type(self.tokenizer).__name__})"

    def graph(self) -> nn.Module:
        """Return the model, for `Trainer.setup_head(head, ...)`.

        Example:
            >>> import torch
            >>> from flodl.hf import Head
            >>> Head(torch.nn.Linear(2, 1), None).graph()
            Linear(in_features=2, out_features=1, bias=True)
        """
        return self.model

    def predict(
        self,
        texts: Sequence[str | tuple[str, str]],
        *,
        top_k: int | None = None,
        **options: Any,
    ) -> list[list[LabelScore]]:
        """Return the labels of each text, the most probable first.

        Args:
            texts: n texts, or n pairs of texts.
            top_k: labels for each text; all if not given.
            **options: settings of `TextClassificationPipeline`, such as `batch_size`.

        Returns:
            n lists of labels.

        Raises:
            HuggingFaceError: there is no tokenizer, or the model does not classify texts.
            TypeError: `texts` is one text.

        Example:
            >>> import flodl.hf, torch
            >>> flodl.hf.Head(torch.nn.Linear(2, 1), None).predict("a text")
            Traceback (most recent call last):
            ...
            TypeError: predict takes a list of texts, not one; type: head.predict(['a text'])
        """
        given = [
            {"text": each[0], "text_pair": each[1]} if isinstance(each, tuple) else each
            for each in _several("predict", texts)
        ]
        with self._running(_PREDICT) as pipeline:
            found = pipeline(given, top_k=top_k, **options) if given else []
        return [[LabelScore(each["label"], each["score"]) for each in row] for row in found]

    def tokens(
        self, texts: Sequence[str], *, groups: str = "none", **options: Any
    ) -> list[list[TokenLabel]]:
        """Return the labels of the tokens of each text, in the order of the text.

        Tokens with the label `O`, which means none, are left out.

        Args:
            texts: n texts.
            groups: how neighbours with one label are joined: `none`, `simple`, `first`, `average` or `max`;
                the `aggregation_strategy` of transformers.
            **options: settings of `TokenClassificationPipeline`, such as `ignore_labels`.

        Returns:
            n lists of labels.

        Raises:
            HuggingFaceError: there is no tokenizer, or the model does not label tokens.
            TypeError: `texts` is one text.

        Example:
            >>> import flodl.hf, torch
            >>> flodl.hf.Head(torch.nn.Linear(2, 1), None).tokens("a text")
            Traceback (most recent call last):
            ...
            TypeError: tokens takes a list of texts, not one; type: head.tokens(['a text'])
        """
        given = _several("tokens", texts)
        with self._running(_TOKENS) as pipeline:
            found = pipeline(given, aggregation_strategy=groups, **options) if given else []
        return [[_token(each) for each in row] for row in found]

    def answer(
        self, questions: Sequence[tuple[str, str]], *, top_k: int = 1, **options: Any
    ) -> list[list[Answer]]:
        """Return the answers to each question, the most probable first.

        Args:
            questions: n pairs of a question and its context, the text that has the answer.
            top_k: answers for each question, if the context has as many.
            **options: settings of `QuestionAnsweringPipeline`, such as `max_answer_len`.

        Returns:
            n lists of answers.

        Raises:
            HuggingFaceError: there is no tokenizer, or the model does not answer questions.
            TypeError: `questions` is one text.

        Example:
            >>> import flodl.hf, torch
            >>> flodl.hf.Head(torch.nn.Linear(2, 1), None).answer("who?")
            Traceback (most recent call last):
            ...
            TypeError: answer takes a list of pairs; type: head.answer([('who?', context)])
        """
        given = [_question(each) for each in _several("answer", questions)]
        asked = {"question": [each[0] for each in given], "context": [each[1] for each in given]}
        with self._running(_ANSWER) as pipeline, warnings.catch_warnings():
            # transformers gives tensors to numpy, which will not take them so in the future.
            warnings.filterwarnings("ignore", "__array__ implementation", DeprecationWarning)
            found = pipeline(**asked, top_k=top_k, **options) if given else []
        rows = [found] if len(given) == 1 else found  # transformers unpacks a single one, twice
        return [
            [
                Answer(each["answer"], each["score"], each["start"], each["end"])
                for each in (row if isinstance(row, list) else [row])
            ]
            for row in rows
        ]

    def fill_mask(self, text: str, top_k: int = 5, **options: Any) -> list[list[Filling]]:
        """Return the tokens for each mask of a text, the most probable first.

        Args:
            text: a text with the mask token of the tokenizer, such as `[MASK]`, once or several times.
            top_k: tokens for each mask.
            **options: settings of `FillMaskPipeline`, such as `targets`.

        Returns:
            A list for each mask, in the order of the text.

        Raises:
            HuggingFaceError: there is no tokenizer, the model does not fill masks, or there is no mask.

        Example:
            >>> import flodl.hf, torch
            >>> try:
            ...     flodl.hf.Head(torch.nn.Linear(2, 1), None).fill_mask("no mask")
            ... except flodl.hf.HuggingFaceError:
            ...     print("no tokenizer, or no transformers")
            no tokenizer, or no transformers
        """
        self._require(_FILL)
        mask = self.tokenizer.mask_token
        if mask is None:
            raise HuggingFaceError(
                f"{type(self.tokenizer).__name__} has no mask token, so that no place can be filled; "
                'type: tokenizer.mask_token = "[MASK]", with the token that the model was trained with'
            )
        if mask not in text:
            raise HuggingFaceError(
                f"the text {text!r} has no {mask}, so that there is nothing to fill; "
                f"write {mask} where a token is missing"
            )
        with self._running(_FILL) as pipeline:
            found = pipeline(text, top_k=top_k, **options)
        rows = found if isinstance(found[0], list) else [found]
        return [
            [
                Filling(each["token_str"], each["score"], each["token"], each["sequence"])
                for each in row
            ]
            for row in rows
        ]

    def compute_loss(self, batch: Mapping[str, Any], labels: Tensor | None = None) -> Tensor:
        """Return the loss of the model for a batch, for `backward`.

        The modes are not changed: in train mode there is dropout.

        Args:
            batch: what the tokenizer returns with `return_tensors="pt"`: `input_ids` and others, of shape
                (n, tokens) each.
            labels: (n,) for texts, (n, tokens) for tokens and masks; if not given, `batch` has them.

        Returns:
            A scalar.

        Raises:
            HuggingFaceError: there are no labels, or the model has no loss.

        Example:
            >>> import flodl.hf, torch
            >>> head = flodl.hf.Head(torch.nn.Linear(2, 1), None)
            >>> try:
            ...     head.compute_loss({"input_ids": torch.ones(1, 3)})
            ... except flodl.hf.HuggingFaceError:
            ...     print("no labels")
            no labels
        """
        values = {**batch} if labels is None else {**batch, "labels": labels}
        if not any("label" in name or name == "start_positions" for name in values):
            raise HuggingFaceError(
                f"the batch of {type(self.model).__name__} has no labels, so that there is no loss; type: "
                "head.compute_loss(batch, labels), or for answers: batch['start_positions'] = ..., "
                "batch['end_positions'] = ..."
            )
        loss = self.model(**values, return_dict=True).get("loss")
        if not isinstance(loss, Tensor):
            raise HuggingFaceError(
                f"{type(self.model).__name__} computed no loss of {', '.join(sorted(values))}; "
                "see the arguments of its forward"
            )
        return loss

    def _require(self, task: _Task) -> None:
        require()
        name = type(self.model).__name__
        if name not in task.models():
            able = [each.method for each in _TASKS if name in each.models()]
            has = f"; it has {', '.join(able)}" if able else ""
            raise HuggingFaceError(
                f"{task.method} needs a model that {task.does}, and {name} is none{has}; "
                f"type: transformers.{task.auto}.from_pretrained(...)"
            )
        if self.tokenizer is None:
            raise HuggingFaceError(
                f"{task.method} reads texts, and this head has no tokenizer; type: "
                "flodl.hf.head(model, transformers.AutoTokenizer.from_pretrained(...))"
            )

    @contextmanager
    def _running(self, task: _Task) -> Iterator[Any]:
        """Give the pipeline of a task, with the model in eval mode while it is used."""
        self._require(task)
        with _evaluated(self.model):
            yield _pipeline(task, self.model, self.tokenizer)


_TASKS = (_PREDICT, _TOKENS, _ANSWER, _FILL)


def head(model: nn.Module, tokenizer: Any = None) -> Head:
    """Return a model of transformers by its task: `predict`, `tokens`, `answer`, `fill_mask`, `compute_loss`.

    Args:
        model: a `PreTrainedModel` with a head, such as `BertForSequenceClassification`, switched by
            `flodl.hf.graph` or not.
        tokenizer: its tokenizer; `compute_loss` needs none.

    Raises:
        HuggingFaceError: transformers is missing, or the model is not one of transformers.
        TypeError: `model` is no module.

    Example:
        >>> import flodl.hf
        >>> flodl.hf.head("bert")
        Traceback (most recent call last):
        ...
        TypeError: flodl.hf.head takes a model, not str; type: flodl.hf.head(model, tokenizer)
    """
    given: Any = model  # whatever a caller without types gives
    if not isinstance(given, nn.Module):
        raise TypeError(
            f"flodl.hf.head takes a model, not {type(given).__name__}; type: flodl.hf.head(model, tokenizer)"
        )
    require()
    base: Any = importlib.import_module("transformers").PreTrainedModel
    if not isinstance(given, base):
        raise HuggingFaceError(
            f"flodl.hf.head takes a model of transformers, not {type(given).__name__}; for a module around "
            "one type: flodl.hf.head(module.NAME, tokenizer)"
        )
    return Head(given, tokenizer)


def _several(method: str, given: Any) -> list[Any]:
    if isinstance(given, str) and method == "answer":
        raise TypeError(f"answer takes a list of pairs; type: head.answer([({given!r}, context)])")
    if isinstance(given, str):
        raise TypeError(
            f"{method} takes a list of texts, not one; type: head.{method}([{given!r}])"
        )
    return list(given)


def _question(given: Any) -> tuple[str, str]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise TypeError(
            f"answer takes pairs of a question and its context, not {given!r}; "
            "type: head.answer([(question, context)])"
        )
    return given[0], given[1]


def _token(found: Mapping[str, Any]) -> TokenLabel:
    label = found["entity"] if "entity" in found else found["entity_group"]
    return TokenLabel(
        label,
        float(found["score"]),
        found["word"],
        found.get("index"),
        found["start"],
        found["end"],
    )


@contextmanager
def _evaluated(model: nn.Module) -> Iterator[None]:
    """Run the model in eval mode; afterwards each part has its own mode again."""
    modes = [(each, each.training) for each in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for each, mode in modes:
            each.training = mode


def _pipeline(task: _Task, model: Any, tokenizer: Any) -> Any:
    pipelines: Any = importlib.import_module("transformers.pipelines")
    log: Any = importlib.import_module("transformers.utils.logging")
    before = log.get_verbosity()
    log.set_verbosity_error()  # it tells the device, which is the one of the model
    try:
        # A model that is spread over devices has a map of them, and no device is told then.
        device = None if "hf_device_map" in vars(model) else model.device
        return vars(pipelines)[task.pipeline](model=model, tokenizer=tokenizer, device=device)
    finally:
        log.set_verbosity(before)
