"""The manual's generated parts: the example's stages, the patterns with their cases, the reasons."""

import re
import textwrap
from pathlib import Path

from fdl_cli.porter.ir.pretty import script_text
from fdl_cli.porter.knowledge.reasons import REASONS
from fdl_cli.porter.plan import PATTERNS

MANUAL = Path(__file__).parents[2] / "docs" / "explanation" / "porter.md"


def fenced(text, language=""):
    return f"```{language}\n{textwrap.dedent(text).strip(chr(10))}\n```"


def example(porter, text):
    source = re.search(r"## One example.*?```python\n(.*?)```", text, re.DOTALL).group(1)
    head = "import torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
    made = porter.draft(head + source)
    flow = made.text[made.text.index("    def flow") :]
    plan = made.plan.classes[0].reading
    return {"ir": script_text(made.script), "plan": plan, "flow": flow}


def patterns():
    for pattern in PATTERNS:
        title, _, _ = pattern.__doc__.partition("\n")
        yield f"### {pattern.__name__.rpartition('.')[2]}\n\n{title}\n"
        for case in pattern.CASES:
            yield (
                fenced(case.before, "python")
                + "\n\nbecomes\n\n"
                + fenced(case.after, "python")
                + "\n"
            )
        yield "Left alone:\n"
        for case in pattern.LEFT_ALONE:
            yield fenced(case.after, "python") + "\n"


def reasons():
    yield "| code | what | what to do |\n|---|---|---|"
    for reason in REASONS.values():
        yield f"| {reason.code} | {reason.title} | {reason.advice} |"


def filled(porter, text):
    parts = {f"example: {key}": fenced(value) for key, value in example(porter, text).items()}
    parts |= {"patterns": "\n".join(patterns()).rstrip(), "reasons": "\n".join(reasons())}
    for name, part in parts.items():
        whole = rf"<!-- {re.escape(name)} -->\n(?:.*?<!-- end -->\n)?"
        block = f"<!-- {name} -->\n{part}\n<!-- end -->\n"
        text, count = re.subn(whole, lambda _: block, text, count=1, flags=re.DOTALL)  # noqa: B023
        assert count == 1, name
    return text


def test_manual_is_up_to_date(porter, golden):
    golden(MANUAL, filled(porter, MANUAL.read_text(encoding="utf-8")))
