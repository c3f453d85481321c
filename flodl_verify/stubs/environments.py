"""Environments in the shape of gym and gymnasium, whose observations are noise."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, final

EPISODE = 20
# Sizes of the observation and the number of actions; without one, an action is a number in [-2, 2].
_KNOWN: dict[str, tuple[int, int]] = {
    "Acrobot": (6, 3), "BipedalWalker": (24, 0), "CartPole": (4, 2), "LunarLander": (8, 4),
    "MountainCar": (2, 3), "MountainCarContinuous": (2, 0), "Pendulum": (3, 0),
}  # fmt: skip


@final
class Space:
    """The form of an observation or an action."""

    def __init__(self, size: int, count: int, draws: Any) -> None:
        import numpy as np

        self.shape = () if count else (size,)
        self.dtype = np.int64 if count else np.float32
        self._draws = draws
        self._count = count
        if count:
            self.n = count
        else:
            self.high = np.full(size, 2.0, np.float32)
            self.low = -self.high

    def sample(self) -> Any:
        """Draw a value from its generator."""
        if self._count:
            return int(self._draws.integers(self._count))
        return self._draws.uniform(self.low, self.high).astype("float32")

    def seed(self, seed: int | None = None) -> None:
        """Do nothing: it draws the same every time."""


@final
class Environment:
    """Noise to observe, a reward of one, and an end after some steps; `modern` answers as gymnasium."""

    metadata: dict[str, Any] = {}
    x_threshold, theta_threshold_radians = 2.4, 0.2095  # of CartPole
    max_speed, max_torque = 8.0, 2.0  # of Pendulum

    def __init__(self, name: str, *, modern: tuple[bool, bool]) -> None:
        import numpy as np

        size, count = _KNOWN.get(name.partition("-")[0], (4, 2))
        self._draws = np.random.default_rng(0)
        self._modern_reset, self._modern_step = modern
        self._taken = 0
        self.observation_space = Space(size, 0, self._draws)
        self.action_space = Space(1, count, self._draws)
        self.spec = ModuleType("spec")
        vars(self.spec).update(id=name, reward_threshold=1e9, max_episode_steps=EPISODE)

    @property
    def unwrapped(self) -> Environment:
        """The environment itself: nothing is around it."""
        return self

    def reset(self, *, seed: int | None = None, options: object = None) -> Any:
        """Begin an episode."""
        del seed, options
        self._taken = 0
        first = self._observe()
        return (first, {}) if self._modern_reset else first

    def step(self, action: object) -> Any:
        """Observe something, for any action."""
        del action
        self._taken += 1
        ended = self._taken >= EPISODE
        seen = self._observe()
        return (seen, 1.0, ended, False, {}) if self._modern_step else (seen, 1.0, ended, {})

    def _observe(self) -> Any:
        return self._draws.normal(0, 0.5, self.observation_space.shape).astype("float32")

    def seed(self, seed: int | None = None) -> list[int]:
        """Do nothing: it observes the same every time."""
        return [seed or 0]

    def render(self, *_: object, **__: object) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Do nothing."""


def make_gym_module(name: str) -> ModuleType:
    """Return a module with `make`; code that derives from other parts of gym finds none."""
    module = ModuleType(name)
    module.__path__ = []
    recent = name.partition(".")[0] == "gymnasium"

    def make(id: str, *_: object, **__: object) -> Environment:  # noqa: A002 - gym's name
        return Environment(id, modern=_style(Path(sys.argv[0]), recent=recent))

    vars(module)["make"] = make
    return module


def _style(script: Path, *, recent: bool) -> tuple[bool, bool]:
    """Return True if a script takes two values from `reset` and five from `step`, as gymnasium gives."""
    reset = step = recent
    try:
        tree = ast.parse(script.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return reset, step
    for node in ast.walk(tree):
        match node:
            case ast.Assign(
                targets=[target], value=ast.Call(func=ast.Attribute(attr="reset" | "step" as word))
            ):
                several = len(target.elts) if isinstance(target, ast.Tuple) else 0
                if word == "reset":
                    reset = several == 2
                elif several:
                    step = several == 5
            case _:
                pass
    return reset, step
