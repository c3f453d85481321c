"""Search for cases (constructor arguments and inputs) of the classes to compare.

Sources, best first: `--example`, a recorded run of the script, constructor calls and factories in
the file, and what the layers and signatures suggest. Every case comes from a run of the original.
"""

from __future__ import annotations

import linecache
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import final

from torch import nn

from flodl_verify.inputs.drivers import carriers, drivers, is_script, run_script
from flodl_verify.inputs.found_cases import FoundCases
from flodl_verify.inputs.importance import Standing, standings
from flodl_verify.inputs.input_search import find_arguments
from flodl_verify.inputs.recorder import MAX_CASES_PER_CLASS, Case, Recorder, load_cases
from flodl_verify.inputs.rules.asked_arguments import MAX_QUESTIONS
from flodl_verify.inputs.rules.constructor_guesses import (
    guess_asked_for,
    guess_constructor_arguments,
    guess_fitting,
)
from flodl_verify.inputs.rules.layer_shapes import has_forward
from flodl_verify.inputs.rules.settings_classes import SettingsMemory
from flodl_verify.inputs.search_time import SearchTime
from flodl_verify.inputs.watched_calls import (
    EXAMPLE_SEED,
    call_watched,
    is_kept,
    new_recorder,
    of_expression,
    of_value,
    run_without_gradients,
    watch,
)
from flodl_verify.sandbox.attempt import Failure, OutOfTimeError, attempt
from flodl_verify.sandbox.isolated_import import Side, locate
from flodl_verify.sandbox.seeds import seed_all
from flodl_verify.sources.literals import Example, model_expressions, parse_example
from flodl_verify.sources.project_values import ProjectValues
from flodl_verify.sources.shown_examples import shown_examples
from flodl_verify.sources.users import classes_in, test_calls, user_files
from flodl_verify.values.precision import numbers_in, wants_double
from flodl_verify.values.recipes import (
    Arguments,
    Construction,
    evaluate_arguments,
    pack,
    unpack,
)

# Of the time that is left, the share that one model's inputs may be searched for.
MODEL_SHARE = 0.4
MIN_MODEL_S = 1.0
# Likeliest first: one file that uses a class is often enough.
USER_SHARE = 0.5
# Parts of models, models, and what trains them.
USER_LEVELS = 2
# All calls of constructors in the file together.
EXPRESSIONS_SHARE = 0.5
# Shares of the time for one class, and seconds: first a quick look at all of them, then what one class
# leaves of its time is for the others.
ROUNDS = ((0.4, 0.1), (2.0, MIN_MODEL_S))
LAST_ROUND = ((2.0, MIN_MODEL_S),)
NO_INPUTS = "no inputs found"
TIME_OVER = "the time to find inputs was over"


@final
class CaseFinder:
    """The cases found so far, by class name, and why there are none for others."""

    def __init__(self, original: Side, wanted: tuple[str, ...], budget_s: float) -> None:
        self._original = original
        with original.active():  # texts of classes are found through their modules
            self._wanted = tuple(name for name in wanted if self._can_be_called(name))
        self._project = ProjectValues(original.file, original.folders)
        self._time = SearchTime(budget_s)
        self._found = FoundCases(original)
        self._settings = SettingsMemory()
        self.reasons: dict[str, str] = {}
        # Names whose reason is that there was no time.
        self._late: set[str] = set()
        self.trouble: str | None = None

    @property
    def cases(self) -> dict[str, list[Case]]:
        """The cases by class name, from the best source first."""
        return self._found.cases

    @property
    def missing(self) -> tuple[str, ...]:
        """Names that have no case yet."""
        return tuple(name for name in self._wanted if not self.cases.get(name))

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Names for which there was no time to look for a case."""
        return tuple(name for name in self.missing if self.is_late(name))

    def is_late(self, name: str) -> bool:
        """Return True if a name has no case because there was no time to look for one."""
        return (name if name in self.reasons else "") in self._late

    def _note(self, name: str, reason: str, *, late: bool = False) -> None:
        """Keep why a name has no case; the first reason counts."""
        if name not in self.reasons:
            self.reasons[name] = reason
            if late:
                self._late.add(name)

    def _note_failure(self, name: str, failure: Failure) -> None:
        self._note(name, str(failure), late=failure.code == "no-time")

    def again(self, names: tuple[str, ...], budget_s: float) -> CaseFinder:
        """Return an empty book for some of the names, which knows what was constructed so far."""
        book = CaseFinder(self._original, names, budget_s)
        book._found.constructions = self._found.constructions
        book._settings = self._settings
        return book

    def note_end(self) -> None:
        """Note that the time was over before all names were looked at."""
        self._note("", TIME_OVER, late=True)

    def add_examples(self, examples: tuple[str, ...]) -> None:
        """Take the user's examples; one that fails is the user's to know.

        Raises:
            ExampleSyntaxError: an example is not `MODEL: ARGUMENTS`.
        """
        for text in examples:
            example = parse_example(text)
            name = example.model if self._is_value(example.model) else None
            construction = of_value(self._original, name) if name else of_expression(example.model)
            origin = f"--example {text}"
            failure = self._explore(construction, origin, example.inputs, name=name)
            if failure is not None:
                self.trouble = f"--example `{text}` fails in the original: {failure}"

    def add_recording(self, data: bytes) -> None:
        """Take what a recorded run of the script left."""
        cases, constructions = load_cases(data)
        self._found.merge(cases, constructions)

    def add_values(self) -> None:
        """Find inputs for module-level models among the wanted names."""
        for name in self.missing:
            if self._is_value(name):
                origin = f"`{name}` with inputs from its layers"
                self._explore(of_value(self._original, name), origin, None, name=name)

    def add_expressions(self) -> None:
        """Try the constructor calls and factories in the file, for classes without a case."""
        classes = tuple(name for name in self._wanted if self._class_named(name) is not None)
        found = attempt(lambda: model_expressions(self._original.file, classes))
        texts = [] if isinstance(found, Failure) else list(found)
        # A file that builds its heaviest model by itself must not take the time of all others.
        until = time.monotonic() + EXPRESSIONS_SHARE * self._time.left_s()
        for number, text in enumerate(texts):
            made = text.split("(")[0]
            left = until - time.monotonic()
            if not self.missing or left <= 0:
                return
            if not self.cases.get(made):
                share = left / self._time.left_s() / min(len(texts) - number, 3)
                self._within(share, made, partial(self._express, made, text), 0.0)

    def add_shown(self) -> None:
        """Try the examples in the documents of the project, for classes without a case."""
        classes = tuple(name for name in self.missing if self._class_named(name) is not None)
        file, folders = self._original.file, self._original.folders
        found = attempt(lambda: shown_examples(file, folders, classes))
        for name, examples in () if isinstance(found, Failure) else found.items():
            for example in examples:
                if not self.cases.get(name) and not self._time.is_over():
                    self._within(USER_SHARE, name, partial(self._show, name, example))

    def _show(self, name: str, example: Example) -> None:
        origin = f"`{example.model}` of the project's documents"
        failure = self._explore(of_expression(example.model), origin, example.inputs)
        if failure is not None:
            self._note_failure(name, failure)

    def _express(self, made: str, text: str) -> None:
        failure = self._explore(of_expression(text), f"`{text}` with inputs from its layers", None)
        if failure is not None:
            self._note_failure(made, failure)

    def add_guesses(self, rounds: tuple[tuple[float, float], ...] = ROUNDS) -> None:
        """Construct what is still missing as it was constructed elsewhere, or by its signature."""
        standing = self._standings()
        places = {name: place for place, name in enumerate(self._wanted)}
        for share, least in rounds:
            # A model shows the inputs of all its parts, and mostly comes after them in its file.
            pending = sorted(self.missing, key=lambda n: (standing[n].holds, places[n]))
            while pending:
                name = pending.pop()
                part = share / (len(pending) + 2)
                self._within(part, name, partial(self._guess, name), least)

    def _standings(self) -> dict[str, Standing]:
        with self._original.active():  # texts of classes are found through their modules
            return standings(self._original.namespace(), self._wanted)

    def add_users(self) -> None:
        """Run other code of the file and its project, for the classes that it uses."""
        missing = [name for name in self.missing if self._class_named(name) is not None]
        if not missing:
            return
        own, folders = self._original.module, self._original.folders
        with self._original.active():
            names = [*missing, *carriers(own, missing)]
        self._within(
            USER_SHARE, "", partial(self._drive, own, names, "seen in other code of its file")
        )
        done, files = {self._original.file}, user_files(self._original.file, folders, names)
        for _ in range(USER_LEVELS):
            further: list[Path] = []
            for file in files:
                if not self.missing or self._time.left_s() <= 0:
                    return
                done.add(file)
                above: list[str] = []
                self._within(USER_SHARE, "", partial(self._use, file, names, above))
                further += user_files(file, folders, above) if above else []
                names += above
            files = [file for file in dict.fromkeys(further) if file not in done]

    def _use(self, file: Path, names: list[str], above: list[str]) -> None:
        """Run what a file has for some names; `above` takes the names of what it has."""
        seen = f"seen in `{file.name}`"
        recorder = new_recorder(self._original, seen)
        with recorder.watching():
            module = self._original.load_other(file)
        self._found.merge_seen(recorder)
        if isinstance(module, Failure):
            return
        with self._original.active():  # their texts are found through their modules
            models, tests = classes_in(module, names), list(test_calls(module, names))
            around = carriers(module, names, models=True)
            above += [name for name in around if name not in names]
        for made in models:
            if not self.missing or self._time.is_over():
                return
            for _, construction in self._guessed(made, new_recorder(self._original, "")):
                if self._explore(construction, seen, None) is None:
                    break
        for call in tests:
            if not self.missing or self._time.is_over():
                return
            self._watch(call, seen)
        self._drive(module, names, seen)
        if self.missing and is_script(file) and not self._time.is_over():
            self._watch(lambda: run_script(file, locate(file), self._time.part_left_s()), seen)

    def _drive(self, module: ModuleType, names: list[str], seen: str) -> None:
        """Call what makes models without being one."""
        with self._original.active():
            calls = list(drivers(module, names, self._project, self._time.part_left_s))
        for call in calls:
            if not self.missing or self._time.is_over():
                return
            self._watch(call, seen)

    def _watch(self, call: Callable[[], object], origin: str) -> None:
        """Run a call for the modules that it makes and calls, however it ends."""
        self._found.merge_seen(watch(self._original, call, origin))

    def _guess(self, name: str) -> None:
        made = self._class_named(name)
        if self.cases.get(name) or made is None:
            return
        for construction in self._found.constructions.get(name, [])[:MAX_CASES_PER_CLASS]:
            if not self._time.is_over() and not self.cases.get(name):
                origin = "arguments seen in a run, inputs from its layers"
                self._explore(construction, origin, None)
        if self.cases.get(name) or self._time.is_over():
            return
        recorder = new_recorder(self._original, "")
        for kwargs, construction in self._guessed(made, recorder):
            failure = self._try_and_ask(made, kwargs, construction, recorder)
            if failure is not None:  # the first guess is the likeliest
                self._note_failure(name, failure)
            if self.cases.get(name) or self._time.is_over():
                return  # before the next guess is made

    def _try_and_ask(
        self,
        made: type[nn.Module],
        kwargs: dict[str, object],
        construction: Construction,
        recorder: Recorder,
    ) -> Failure | None:
        """Try guessed arguments; add those that the error names, and exchange those that do not fit."""
        origin = "guessed from signature and layers"
        failure, told = self._explore(construction, origin, None), None
        for _ in range(MAX_QUESTIONS):
            if failure is None or self._time.is_over():
                break
            with self._original.active(), recorder.watching():
                more = self._remedy(made, kwargs, failure)
            if not more:
                break
            exchanged = kwargs.keys() & more.keys()
            kwargs = {**kwargs, **more}
            after = self._explore(self._construction(made, kwargs, recorder), origin, None)
            # The error of a replacement says less than the reason of the exchange.
            told = failure if after is not None and exchanged and told is None else told
            failure = after
        if failure is None:
            self._settings.note_fitting(kwargs)
        return None if failure is None else told or failure

    def _remedy(
        self, made: type[nn.Module], kwargs: dict[str, object], failure: Failure
    ) -> dict[str, object]:
        """Return arguments to add or to exchange after a refusal."""
        line, said = linecache.getline(str(self._original.file), failure.line or 0), failure.text
        found = guess_fitting(made, kwargs, said, line, failure.line)
        if found or failure.code != "raised":
            return found
        # A message says best what is missing; without one, the line shows it.
        return guess_asked_for(made, kwargs, said) or guess_asked_for(made, kwargs, line)

    def _within(
        self, share: float, name: str, call: Callable[[], None], least: float = MIN_MODEL_S
    ) -> None:
        """Give a call its share of the time that is left; the rest is for the others."""
        try:
            with self._time.part(share, least):
                outcome = attempt(call)
            if isinstance(outcome, Failure):  # a module that does not answer as modules do
                self._note(name, f"no inputs can be looked for: {outcome}")
        except OutOfTimeError:
            self._note(name, TIME_OVER, late=True)

    def _guessed(
        self, made: type[nn.Module], recorder: Recorder
    ) -> Iterator[tuple[dict[str, object], Construction]]:
        guesses = guess_constructor_arguments(made, self._project, self._settings)
        known: set[bytes] = set()
        while True:
            # One at a time: a guess may construct whole models, and the first one mostly fits.
            with self._original.active(), recorder.watching():
                seed_all(EXAMPLE_SEED)
                kwargs = next(guesses, None)
            if kwargs is None:
                return
            construction = self._construction(made, kwargs, recorder)
            if construction.arguments.data not in known:
                known.add(construction.arguments.data)
                yield kwargs, construction

    def _construction(
        self, made: type[nn.Module], kwargs: dict[str, object], recorder: Recorder
    ) -> Construction:
        with self._original.active():
            packed = pack(((), kwargs), recorder, keep_live=True)
        return Construction(
            kind="class", module=made.__module__, qualname=made.__qualname__, arguments=packed
        )

    def _explore(
        self,
        construction: Construction,
        origin: str,
        inputs: str | None,
        *,
        name: str | None = None,
    ) -> Failure | None:
        """Build the original, find inputs it accepts, and record it and all modules inside it."""
        side = self._original
        recorder = new_recorder(side, origin)

        def build() -> nn.Module:
            seed_all(EXAMPLE_SEED)
            with recorder.watching():
                return construction.build(side)

        with side.active():
            model = attempt(build, side.file)
            if isinstance(model, Failure):
                return model
            with numbers_in(double=construction.double):
                arguments = self._arguments_for(model, inputs, construction)
            if isinstance(arguments, Failure):
                if wants_double(arguments) and not construction.double:
                    return self._explore(replace(construction, double=True), origin, inputs)
                self._found.merge({}, recorder.constructions)
                return arguments
            packed = attempt(lambda: pack(arguments, recorder, keep_live=True))
            if isinstance(packed, Failure):
                return packed
            kept = is_kept(side, construction, model)
            if construction.kind != "class" and not kept:
                recorder.ignore(model)
            failure = run_without_gradients(
                lambda: call_watched(model, unpack(packed, side), recorder), side.file
            )
        shown = name or type(model).__qualname__
        ours = name is not None or self._found.is_known_as(shown, type(model).__module__)
        # A class with its own `__call__` is called past what watches modules.
        seen = kept or (construction.kind == "class" and recorder.cases.get(shown))
        if failure is None and ours and not seen:
            own = Case(class_name=shown, construction=construction, inputs=packed, origin=origin)
            recorder.cases.setdefault(shown, []).insert(0, own)
        self._found.merge(recorder.cases, recorder.constructions)
        return failure

    def _arguments_for(
        self, model: nn.Module, inputs: str | None, construction: Construction
    ) -> Arguments | Failure:
        side = self._original
        seed_all(EXAMPLE_SEED)
        if inputs is not None:
            return attempt(lambda: evaluate_arguments(inputs, side))
        # A model that takes nothing must not take all the time. Processor time: where others have the
        # processor, the clock would end the search for one model early, and its next guess be taken.
        deadline = time.process_time() + max(self._time.part_left_s() * MODEL_SHARE, MIN_MODEL_S)
        made_of = None
        if construction.kind == "class":
            made_of = unpack(construction.arguments, side)
        found = find_arguments(
            model,
            side.file,
            lambda: self._time.is_over() or time.process_time() > deadline,
            made_of,
        )
        if found is None:
            return Failure(text=f"{NO_INPUTS}: no time was left", line=None, code="no-time")
        if isinstance(found, Failure):
            text = f"{NO_INPUTS}: {found.text}"
            return Failure(text=text, line=found.line, code="no-inputs")
        return found

    def _can_be_called(self, name: str) -> bool:
        made = self._class_named(name)
        return made is None or has_forward(made)

    def _is_value(self, name: str) -> bool:
        return isinstance(self._original.namespace().get(name), nn.Module)

    def _class_named(self, name: str) -> type[nn.Module] | None:
        value = self._original.namespace().get(name)
        if isinstance(value, type) and issubclass(value, nn.Module):
            return value
        return None
