"""One side of a comparison: builds models of one program, calls them, and reports it.

A worker has a process to itself and runs user code of one side only. It compares nothing: it writes
tensors and structure, as answers to the questions of the judge (see `flodl_verify.compare.remote`).

Example: the judge sends `{"op": "build", "case": 0}` and reads `{"ok": {"model": 1}}`; it sends
`{"op": "call", "model": 1, "inputs": 2, "seed": 100, "mode": "eval", ...}` and reads the parts of
the result, with the numbers in the worker's store.
"""

from __future__ import annotations

import copy
import gc
import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar, final

import torch
from torch import nn

from flodl_verify.inputs.case_finder import LAST_ROUND, CaseFinder
from flodl_verify.inputs.importance import standings
from flodl_verify.inputs.recorder import Case
from flodl_verify.inputs.rules.layer_shapes import has_forward
from flodl_verify.protocol import Request
from flodl_verify.sandbox.attempt import Failure, OutOfTimeError, attempt, describe, time_limit
from flodl_verify.sandbox.containment import StopRunError
from flodl_verify.sandbox.isolated_import import Label, Side
from flodl_verify.sandbox.seeds import random_state
from flodl_verify.sandbox.tolerant_import import (
    ImportSettings,
    eased_words,
    load_eased,
    open_original,
    open_port,
)
from flodl_verify.sides.curve import record_curve
from flodl_verify.sides.divergence import trace
from flodl_verify.sides.drawing import draw
from flodl_verify.sides.probe import Abilities, Accepted, UnusableCaseError, probe_original
from flodl_verify.sides.script_run import record_script
from flodl_verify.sides.step_variants import run_variants
from flodl_verify.sides.subject import Call, Subject
from flodl_verify.sides.tried_changes import ChangeSearch
from flodl_verify.sides.wire import Fields, Store, Stored, add_tensor, encoded
from flodl_verify.sides.world_changes import Undo, as_fields, of_fields
from flodl_verify.sources.literals import ExampleSyntaxError
from flodl_verify.stubs.install import STUBS
from flodl_verify.values import raw
from flodl_verify.values.recipes import Packed, UntransferableError
from flodl_verify.values.snapshot import Snapshot

T = TypeVar("T")
_Handler = Callable[[Fields], Fields]


@final
class Worker:
    """The models of one side, by number, and the cases and inputs that they are made of."""

    def __init__(
        self, request: Request, label: Label, text: bytes, inbox: Store, outbox: Store
    ) -> None:
        self._request = request
        self._label: Label = label
        self._text = text
        self._inbox = inbox
        self._outbox = outbox
        self._opened: Side | None = None
        self._book: CaseFinder | None = None
        self._cases: dict[int, Case] = {}
        self._inputs: dict[int, Packed] = {}
        self._models: dict[int, Subject] = {}
        # How to take back the change of a model, by the number of the model.
        self._undo: dict[int, Undo] = {}
        self._next = 0
        self._handlers: Mapping[str, _Handler] = {
            "open": self._open, "open again": self._open_again, "search": self._search,
            "search again": self._search_again, "give case": self._give_case,
            "take case": self._take_case, "give inputs": self._give_inputs,
            "take inputs": self._take_inputs, "probe": self._probe, "build": self._build,
            "initial": self._initial, "call": self._call,
            "method": self._method, "steps": self._steps, "perturb": self._perturb,
            "load own": self._load_own, "give state": self._give_state,
            "take state": self._take_state, "trace": self._trace, "draw": self._draw,
            "record": self._record, "curve": self._curve, "changes": self._changes,
            "change": self._change, "undo change": self._undo_change, "fast": self._fast,
        }  # fmt: skip

    def answer(self, question: Fields) -> Fields:
        """Answer a question; an exception of user code is an answer, too."""
        self._outbox.clear()
        handler = self._handlers[question["op"]]
        try:
            with time_limit(question["limit_s"]):
                return {"ok": handler(question)}
        except OutOfTimeError:
            return {"over": True}
        except UnusableCaseError as problem:
            return {
                "unusable": {"text": problem.reason, "code": problem.code, "line": problem.line}
            }
        except UntransferableError as problem:
            return {"unusable": {"text": str(problem), "code": "not-packable", "line": None}}
        except (Exception, SystemExit, GeneratorExit, StopRunError) as problem:
            file = None if self._opened is None else self._opened.file
            return {"failure": _failure(describe(problem, file))}
        finally:
            raw.stop_tracing()

    @property
    def _side(self) -> Side:
        assert self._opened is not None
        return self._opened

    def _run(self, side: Side, call: Callable[[], T]) -> T | Failure:
        with side.active():
            return attempt(call, side.file)

    def _number(self) -> int:
        self._next += 1
        return self._next

    def _received(self, place: object) -> bytes:
        return self._inbox.read().blob(place)

    # -- imports --------------------------------------------------------------------------------

    def _open(self, question: Fields) -> Fields:
        request = self._request
        STUBS.install(request.original)
        if self._label == "original":
            self._opened, settings = open_original(request, self._text)
        else:
            settings = ImportSettings.of_fields(question["settings"])
            self._opened = open_port(request, settings, self._text)
            self._opened.load()
        return {**self._opening(), "settings": settings.as_fields()}

    def _open_again(self, question: Fields) -> Fields:
        """Import the program once more, when all packages are there."""
        del question
        self._side.forget()
        if self._label == "original":
            load_eased(self._side)
        else:
            self._side.load()
        return self._opening()

    def _opening(self) -> Fields:
        side = self._side
        failure, refused = side.failure, side.failure or side.refused
        return {
            "failure": None if failure is None else _failure(failure),
            "refused": None if refused is None else _failure(refused),
            "kinds": self._kinds(),
            "importance": self._importance(),
            "draws": random_state(),
            "words": eased_words(side),
        }

    def _kinds(self) -> dict[str, str]:
        with self._side.active():
            return {name: _kind_of(self._side, name) for name in self._request.classes}

    def _importance(self) -> dict[str, int]:
        if self._label == "port":
            return {}
        with self._side.active():  # texts of classes are found through their modules
            known = standings(self._side.namespace(), self._request.classes)
        return {name: standing.importance for name, standing in known.items()}

    # -- cases ----------------------------------------------------------------------------------

    def _search(self, question: Fields) -> Fields:
        # The objects of imported packages may be a million: no search for garbage looks at them.
        gc.collect()
        gc.freeze()
        book = CaseFinder(self._side, self._request.classes, question["budget_s"])
        try:
            with time_limit(question["budget_s"]):
                book.add_examples(self._request.examples)
                if question["recording"] is not None:
                    book.add_recording(self._received(question["recording"]))
                book.add_values()
                book.add_expressions()
                book.add_guesses()
                book.add_shown()
                book.add_users()
                book.add_guesses(LAST_ROUND)
        except OutOfTimeError:
            book.note_end()
        except ExampleSyntaxError as problem:
            book.trouble = str(problem)
        self._book = book
        return self._found(book)

    def _search_again(self, question: Fields) -> Fields:
        assert self._book is not None
        again = self._book.again(tuple(question["names"]), question["budget_s"])
        try:
            with time_limit(question["budget_s"]):
                again.add_guesses()
                again.add_shown()
                again.add_users()
                again.add_guesses(LAST_ROUND)
        except OutOfTimeError:
            again.note_end()
        return self._found(again)

    def _found(self, book: CaseFinder) -> Fields:
        cases: dict[str, list[tuple[int, str]]] = {}
        for name, found in book.cases.items():
            for case in found:
                number = self._number()
                self._cases[number] = case
                cases.setdefault(name, []).append((number, case.origin))
        return {
            "cases": cases,
            "reasons": book.reasons,
            "trouble": book.trouble,
            "late": [name for name in self._request.classes if book.is_late(name)],
        }

    def _give_case(self, question: Fields) -> Fields:
        case = self._cases[question["case"]]
        return {"place": self._outbox.add(pickle.dumps(case.as_tuple()))}

    def _take_case(self, question: Fields) -> Fields:
        case = Case.of_tuple(pickle.loads(self._received(question["place"])))
        self._cases[question["case"]] = case
        return {}

    def _give_inputs(self, question: Fields) -> Fields:
        packed = self._inputs[question["inputs"]]
        return {"place": self._outbox.add(packed.for_another_process())}

    def _take_inputs(self, question: Fields) -> Fields:
        self._inputs[question["inputs"]] = Packed(data=self._received(question["place"]))
        return {}

    def _probe(self, question: Fields) -> Fields:
        able = probe_original(self._side, self._cases[question["case"]], self._run)
        return self._abilities(able)

    def _abilities(self, able: Abilities) -> Fields:
        plan = able.plan
        return {
            "plan": {
                "inputs": self._kept(plan.inputs), "seed": plan.seed, "mode": plan.mode,
                "backward": plan.backward, "input_gradients": plan.input_gradients,
                "grad_mode": plan.grad_mode,
            },
            "batch": self._variants(able.batch), "sizes": self._variants(able.sizes),
            "scales": self._variants(able.scales), "options": self._variants(able.options),
            "methods": [[item.name, self._kept(item.arguments)] for item in able.methods],
            "no_backward": able.no_backward, "heavy": able.heavy,
            "whole": None if able.whole is None else self._kept(able.whole),
        }  # fmt: skip

    def _variants(self, accepted: Accepted) -> list[tuple[str, int]]:
        return [(label, self._kept(packed)) for label, packed in accepted]

    def _kept(self, packed: Packed) -> int:
        number = self._number()
        self._inputs[number] = packed
        return number

    # -- models ---------------------------------------------------------------------------------

    def _build(self, question: Fields) -> Fields:
        for number in question["drop"]:
            self._models.pop(number, None)
            self._undo.pop(number, None)
        construction = self._cases[question["case"]].construction
        with self._side.active():
            made = Subject.build(self._side, construction)
        number = self._number()
        self._models[number] = made
        trains = any(raw.requires_grad(item) for item in made.model.parameters())
        return {"model": number, "trains": trains}

    def _initial(self, question: Fields) -> Fields:
        with self._side.active():
            sections = self._models[question["model"]].initial()
        return {"sections": self._encoded(sections)}

    def _asked_call(self, question: Fields) -> Call:
        return Call(
            inputs=self._inputs[question["inputs"]],
            seed=question["seed"],
            mode=question["mode"],
            backward=question["backward"],
            input_gradients=question["input_gradients"],
            grad_mode=question["grad_mode"],
        )

    def _call(self, question: Fields) -> Fields:
        call = self._asked_call(question)
        names = question["attribute_names"]
        if names is not None:
            names = tuple((path, tuple(attributes)) for path, attributes in names)
        with self._side.active():
            seen = self._models[question["model"]].call(call, names)
        return {
            "sections": self._encoded(dict(seen.sections)),
            "attribute_names": seen.attribute_names,
            "num_tensors": seen.num_tensors,
            "num_differentiable": seen.num_differentiable,
            "unread": seen.unread,
        }

    def _method(self, question: Fields) -> Fields:
        arguments = self._inputs[question["inputs"]]
        with self._side.active():
            sections = self._models[question["model"]].call_method(question["name"], arguments)
        return {"sections": self._encoded(sections)}

    def _steps(self, question: Fields) -> Fields:
        inputs, count = self._inputs[question["inputs"]], question["count"]
        with self._side.active():
            sections = self._models[question["model"]].train_steps(inputs, count)
        return {"sections": self._encoded(sections)}

    def _perturb(self, question: Fields) -> Fields:
        with self._side.active():
            self._models[question["model"]].perturb()
        return {}

    def _encoded(self, sections: dict[str, Snapshot]) -> Fields:
        # One after the other: of a large model they need as much memory as its weights.
        return {name: encoded(sections.pop(name), self._outbox) for name in list(sections)}

    # -- changes of the world -------------------------------------------------------------------

    def _changes(self, question: Fields) -> Fields:
        construction = self._cases[question["case"]].construction
        with self._side.active():
            search = ChangeSearch(
                partial(Subject.build, self._side, construction), self._asked_call(question)
            )
            found = search.run(question["budget_s"])
        rows = [
            [str(each.change), as_fields(each.change), each.mode, self._kept(each.inputs)]
            for each in found
            if not each.inputs.live  # those cannot be given to the port
        ]
        return {"changes": rows}

    def _change(self, question: Fields) -> Fields:
        number = question["model"]
        with self._side.active():
            self._undo[number] = of_fields(question["change"]).apply(self._models[number].model)
        return {}

    def _undo_change(self, question: Fields) -> Fields:
        with self._side.active():
            self._undo.pop(question["model"])()
        return {}

    # -- states ---------------------------------------------------------------------------------

    def _load_own(self, question: Fields) -> Fields:
        model = self._models[question["model"]].model
        with self._side.active():
            # A copy: torch passes over a tensor that is loaded into itself, even where no other could be.
            model.load_state_dict(copy.deepcopy(model.state_dict()))
        return {}

    def _give_state(self, question: Fields) -> Fields:
        with self._side.active():
            state = self._models[question["model"]].model.state_dict()
            rows = [[key, *self._given_item(item)] for key, item in state.items()]
            own = vars(state) if isinstance(state, OrderedDict) else {}
            extra = self._outbox.add(pickle.dumps(own))
        return {"rows": rows, "extra": extra}

    def _given_item(self, item: object) -> list[Any]:
        if type(item) is torch.Tensor and _is_plain(item):
            dense = raw.dense(item)
            shape = list(raw.shape(dense))
            return [str(raw.dtype(dense)), shape, add_tensor(self._outbox, dense)]
        return [None, None, self._outbox.add(pickle.dumps(item))]

    def _take_state(self, question: Fields) -> Fields:
        stored = self._inbox.read()
        state: OrderedDict[str, object] = OrderedDict()
        with self._side.active():
            for key, dtype, shape, place in question["rows"]:
                state[key] = _taken_item(stored, dtype, shape, place)
            vars(state).update(pickle.loads(stored.blob(question["extra"])))
            # Strict by default; a class's own `load_state_dict` may take no more than the state.
            self._models[question["model"]].model.load_state_dict(state)
        return {}

    # -- what is shown --------------------------------------------------------------------------

    def _trace(self, question: Fields) -> Fields:
        found = trace(self._side, self._cases[question["case"]], question["mode"])
        if isinstance(found, Failure):
            return {"operations": None}
        return {"operations": [[item.name, item.digest, item.line, item.module] for item in found]}

    def _draw(self, question: Fields) -> Fields:
        return {"picture": draw(self._side, self._cases[question["case"]])}

    # -- whole scripts --------------------------------------------------------------------------

    def _record(self, question: Fields) -> Fields:
        curve, recorded = record_script(self._request, self._text, question["seconds"])
        return {"curve": asdict(curve), "place": self._outbox.add(recorded)}

    def _curve(self, question: Fields) -> Fields:
        return {"curve": asdict(record_curve(self._request, self._text, question["seconds"]))}

    def _fast(self, question: Fields) -> Fields:
        return run_variants(self._request, self._text, self._outbox, question["seconds"])


def _failure(failure: Failure) -> Fields:
    return {"text": failure.text, "line": failure.line, "code": failure.code}


def _kind_of(side: Side, name: str) -> str:
    """Return the kind of a name in a program: nothing, a model, its class, another class."""
    if name not in side.namespace():
        return "missing"
    value = side.namespace()[name]
    if isinstance(value, type):
        if not issubclass(value, nn.Module):
            return "class"
        return "model class" if has_forward(value) else "model class without forward"
    return "model" if isinstance(value, nn.Module) else "value"


def _is_plain(tensor: torch.Tensor) -> bool:
    whole = raw.layout(tensor) == torch.strided and not raw.is_nested(tensor)
    return whole and not raw.is_quantized(tensor) and not raw.is_meta(tensor)


def _taken_item(stored: Stored, dtype: str | None, shape: Any, place: object) -> object:
    if dtype is None:
        return pickle.loads(stored.blob(place))
    numbers = stored.tensor(place, vars(torch)[dtype.removeprefix("torch.")], tuple(shape))
    return raw.clone(numbers)  # the model may keep it
