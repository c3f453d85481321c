"""Every reason code that a report may carry, with its meaning and the advice to a person."""

from dataclasses import dataclass
from typing import Final, final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonCode:
    """One stable code: FDL2xx is about classes and layers, FDL3xx about flow, FDL4xx training."""

    code: str
    title: str
    advice: str


_TABLE: tuple[tuple[str, str, str], ...] = (
    ("FDL201", "the class has no `forward` of its own", "nothing to do: it is used as it is"),
    (
        "FDL202",
        "the class extends a layer of torch that makes its parameters later, or is no layer",
        "it works as a stage; compose the layer instead of extending it to describe its forward",
    ),
    (
        "FDL203",
        "the base class is not in this file",
        "port the file of the base class, or derive from `torch.nn.Module`",
    ),
    (
        "FDL204",
        "the base class was kept",
        "see the reason given for the base class",
    ),
    ("FDL206", "the class is defined inside a function or class", "move it to the module's level"),
    (
        "FDL207",
        "`forward` or `__call__` is not a plain method",
        "define `forward` with a plain `def` in the class body",
    ),
    (
        "FDL209",
        "the file could not be checked as a whole",
        "send the file with a bug report; the class was left as it was",
    ),
    (
        "FDL210",
        "a method or class attribute is called `flow`, as the description would be",
        "give it another name in both programs",
    ),
    (
        "FDL301",
        "the truth of a tensor is asked where `bool` is a name of the file",
        "give it another name: the port asks by `.through(bool)`",
    ),
    (
        "FDL303",
        "several tensors, or the memory of one, are turned into Python values",
        "use a torch function on all of them, or move the conversion out of forward",
    ),
    ("FDL304", "`try` in forward", "move the check before the call"),
    ("FDL305", "`yield`, `await` or an async method", "return a list instead"),
    (
        "FDL306",
        "a `with` block that ends errors, whose manager is no call, or with a decision inside",
        "put the block around the call of the model",
    ),
    (
        "FDL308",
        "a random choice among layers, or a shuffled list",
        "draw a number, and choose by it",
    ),
    (
        "FDL309",
        "forward registers, deletes or exchanges something in the object, or inside a part of it",
        "set a plain attribute or buffer of the object itself, or return the value",
    ),
    (
        "FDL310",
        "a function that is handed on, or a decorated helper, stays one opaque step",
        "hand on a module, or call the function in the flow, to see what is inside",
    ),
    ("FDL311", "`global` in forward", "pass the value as an argument"),
    (
        "FDL312",
        "a function defined inside forward is handed on, and changes what is around it",
        "make it a method",
    ),
    (
        "FDL313",
        "a lambda that changes what is around it",
        "let it return the value",
    ),
    (
        "FDL314",
        "`super()` that calls no method of this file, or a forward with decorators",
        "give the step of the base class a name of its own and call that",
    ),
    (
        "FDL315",
        "a decorator on a helper, or one that makes no method",
        "put its effect around the call",
    ),
    ("FDL317", "forward is recursive", "unroll the recursion"),
    ("FDL318", "a statement which a flow cannot contain", "move it out of forward"),
    (
        "FDL319",
        "the gradient mode is changed in forward",
        "do it around the call of the model",
    ),
    (
        "FDL321",
        "the described flow computed something else",
        "compare the two classes by hand; the class was left as it was",
    ),
    (
        "FDL322",
        "the described flow raised where the original does not",
        "see the message; the class was left as it was",
    ),
    ("FDL401", "training code is left as it is", "a graph is a torch module: the loop works"),
    (
        "FDL402",
        "no optimizer both clears and applies the gradients of a loop",
        "let an optimizer step in the loop; a loop that updates weights by hand stays one",
    ),
    (
        "FDL403",
        "several optimizers step in one turn",
        "nothing to do: such a loop works as it is; a session has one optimizer",
    ),
    (
        "FDL404",
        "gradients are not cleared and applied at places that every step passes",
        "call `zero_grad()` once, first in the turn or right behind `optimizer.step()`",
    ),
    (
        "FDL405",
        "gradients are used by hand",
        "use them between `backward()` and `step()`; a session forgets them with the step",
    ),
    (
        "FDL406",
        "a closure that is not called as `optimizer.step(closure)`, or does not clear by itself",
        "write the step as a statement, and call `zero_grad()` inside the closure",
    ),
    (
        "FDL407",
        "a loss scaler is not used as `scale`, `step`, `update`",
        "write `scaler.scale(loss).backward()`, `scaler.step(optimizer)`, `scaler.update()`",
    ),
    (
        "FDL408",
        "it is not clear which model an optimizer trains",
        "make the optimizer outside of the loop, with `model.parameters()`",
    ),
    (
        "FDL409",
        "a part of the training step shares its line with something else",
        "give each statement a line of its own",
    ),
    (
        "FDL411",
        "the moved loop trained differently",
        "compare what is said to differ; the loop was put back",
    ),
    (
        "FDL421",
        "the loop is no plain `for` over batches",
        "write it as `for batch in data:`, or move it with `--training setup`",
    ),
    (
        "FDL422",
        "a turn of the loop can be left before its gradients are applied, or by `return`",
        "leave bad batches out of the data, or move the loop with `--training setup`",
    ),
    (
        "FDL423",
        "the loop adds up gradients over several turns",
        "`.accumulate(n)` does that with means; `--training setup` keeps the loop's own way",
    ),
    (
        "FDL424",
        "something has to happen between the backward pass and the update",
        "`--training setup` leaves it there",
    ),
    (
        "FDL425",
        "the backward pass is not one statement, `loss.backward()`",
        "add the losses up first, or move the loop with `--training setup`",
    ),
    ("FDL426", "the optimizer steps with a closure", "move the loop with `--training setup`"),
    (
        "FDL427",
        "the loop asks for its own names",
        "put them into a dictionary, or move the loop with `--training setup`",
    ),
    (
        "FDL428",
        "the training runs in several processes, in a way that no builder has",
        "take the named part out, and port again; the script works as it is",
    ),
    (
        "FDL429",
        "Ctrl-C is caught around the loop",
        "the builder ends a run after Ctrl-C by itself: take the handler out",
    ),
)

REASONS: Final[dict[str, ReasonCode]] = {
    code: ReasonCode(code=code, title=title, advice=advice) for code, title, advice in _TABLE
}

# Codes of earlier reports, with the version that ported the code instead.  A number is never used again.
RETIRED: Final[dict[str, ReasonCode]] = {
    code: ReasonCode(
        code=code, title=title, advice=f"run `fdl port` again: it ports this since {version}"
    )
    for code, title, version in (
        ("FDL205", "a name used by the class is taken on a graph", "0.1.0"),
        ("FDL208", "a layer is created inside `forward`", "0.1.0"),
        ("FDL302", "a `while` loop on a value that may be a tensor", "0.1.0"),
        ("FDL307", "printing or logging in forward", "0.1.0"),
        ("FDL316", "a loop over the elements of a tensor", "0.1.0"),
        ("FDL320", "numpy or another library on the value of a tensor", "0.1.0"),
    )
}

# The subjects of the codes, by their beginning.
SCOPES: Final = {
    "FDL2": "a class and its layers; it is kept as it was and works inside and beside graphs",
    "FDL3": "what a forward does; the class is kept as it was and works inside and beside graphs",
    "FDL4": "training code; it runs unchanged on ported models",
}
