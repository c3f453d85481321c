"""Adapters for other tools: one small class for each, its package imported when it starts."""

from __future__ import annotations

import importlib
import json
import re
from typing import TYPE_CHECKING, Any, Final, Protocol, final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flodl.monitor.store.records import EpochRecord


class Tool(Protocol):
    """Something that keeps numbers by step and by epoch."""

    def step(self, step: int, time: float, values: Mapping[str, float]) -> None:
        """Take the values of a step."""

    def machine(self, time: float, values: Mapping[str, float]) -> None:
        """Take what the machine did."""

    def epoch(self, record: EpochRecord) -> None:
        """Take an epoch."""

    def setup(self, metadata: Mapping[str, Any]) -> None:
        """Take how the run was set up."""

    def close(self) -> None:
        """Bring everything to where it is kept."""


@final
class TensorBoardTool:
    """Writes event files; epochs are named `epoch/NAME`, with their number as the step."""

    def __init__(self, folder: str) -> None:
        tensorboard = importlib.import_module("torch.utils.tensorboard")
        self._writer: Any = tensorboard.SummaryWriter(folder)
        self._last = 0

    def step(self, step: int, time: float, values: Mapping[str, float]) -> None:
        """Add a scalar per value."""
        self._last = step
        for name, value in values.items():
            self._writer.add_scalar(name, value, step, walltime=time)

    def machine(self, time: float, values: Mapping[str, float]) -> None:
        """Add them at the step that was recorded last."""
        self.step(self._last, time, values)

    def epoch(self, record: EpochRecord) -> None:
        """Add the metrics and the duration."""
        values = {**record.metrics, "seconds": record.duration}
        for name, value in values.items():
            self._writer.add_scalar(f"epoch/{name}", value, record.epoch + 1, walltime=record.time)

    def setup(self, metadata: Mapping[str, Any]) -> None:
        """Add it as text."""
        text = json.dumps(metadata, indent=2, default=str)
        self._writer.add_text("setup", f"```json\n{text}\n```")

    def close(self) -> None:
        """Flush and close the files."""
        self._writer.close()


@final
class WandbTool:
    """Logs to a run of wandb; steps and epochs are separate axes, since wandb's must not go back."""

    def __init__(self, project: str) -> None:
        wandb = importlib.import_module("wandb")
        self._run: Any = wandb.init(project=project)
        self._run.define_metric("step")
        self._run.define_metric("epoch")
        self._run.define_metric("*", step_metric="step")
        self._run.define_metric("epoch/*", step_metric="epoch")

    def step(self, step: int, time: float, values: Mapping[str, float]) -> None:
        """Log the values beside their step."""
        self._run.log({**values, "step": step, "time": time})

    def machine(self, time: float, values: Mapping[str, float]) -> None:
        """Take nothing: wandb samples the machine itself."""

    def epoch(self, record: EpochRecord) -> None:
        """Log the metrics beside their epoch."""
        values = {f"epoch/{name}": value for name, value in record.metrics.items()}
        self._run.log({**values, "epoch/seconds": record.duration, "epoch": record.epoch + 1})

    def setup(self, metadata: Mapping[str, Any]) -> None:
        """Put it into the configuration."""
        self._run.config.update(dict(metadata), allow_val_change=True)

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


@final
class MlflowTool:
    """Logs to a run of MLflow in batches, through the client, so that no global run is touched."""

    _BATCH: Final = 500

    def __init__(self, experiment: str) -> None:
        mlflow = importlib.import_module("mlflow")
        self._entities: Any = importlib.import_module("mlflow.entities")
        self._client: Any = mlflow.MlflowClient()
        known = self._client.get_experiment_by_name(experiment)
        place = known.experiment_id if known else self._client.create_experiment(experiment)
        self._run = self._client.create_run(place).info.run_id
        self._waiting: list[Any] = []
        self._last = 0

    def step(self, step: int, time: float, values: Mapping[str, float]) -> None:
        """Put the values into the batch."""
        self._last = step
        for name, value in values.items():
            self._waiting.append(
                self._entities.Metric(_plain_name(name), value, int(time * 1000), step)
            )
        if len(self._waiting) >= self._BATCH:
            self._send()

    def machine(self, time: float, values: Mapping[str, float]) -> None:
        """Put them at the step that was recorded last."""
        self.step(self._last, time, values)

    def epoch(self, record: EpochRecord) -> None:
        """Put the metrics at the number of their epoch, and send the batch."""
        values = {f"epoch/{name}": value for name, value in record.metrics.items()}
        last = self._last
        self.step(record.epoch + 1, record.time, values)
        self._last = last
        self._send()

    def setup(self, metadata: Mapping[str, Any]) -> None:
        """Log it as parameters; nested values, and those that are set again, as tags."""
        for name, value in metadata.items():
            self._client.set_tag(
                self._run, f"setup.{_plain_name(name)}", json.dumps(value, default=str)
            )

    def close(self) -> None:
        """Send what is left and end the run."""
        self._send()
        self._client.set_terminated(self._run)

    def _send(self) -> None:
        for at in range(0, len(self._waiting), self._BATCH):
            self._client.log_batch(self._run, metrics=self._waiting[at : at + self._BATCH])
        self._waiting = []


@final
class TrackioTool:
    """Logs to a local run of trackio."""

    def __init__(self, project: str) -> None:
        self._trackio: Any = importlib.import_module("trackio")
        self._trackio.init(project=project)

    def step(self, step: int, time: float, values: Mapping[str, float]) -> None:
        """Log the values at their step; trackio uses its own clock."""
        del time
        self._trackio.log(dict(values), step=step)

    def machine(self, time: float, values: Mapping[str, float]) -> None:
        """Take nothing: trackio samples the machine itself."""

    def epoch(self, record: EpochRecord) -> None:
        """Log the metrics with their epoch."""
        values = {f"epoch/{name}": value for name, value in record.metrics.items()}
        self._trackio.log({**values, "epoch": record.epoch + 1})

    def setup(self, metadata: Mapping[str, Any]) -> None:
        """Log it as text: the configuration of trackio is fixed when a run begins."""
        self._trackio.log({"setup": json.dumps(metadata, default=str)})

    def close(self) -> None:
        """Finish the run."""
        self._trackio.finish()


# The name that people type -> the package that must be there, and the function that makes the tool.
TOOLS: Final[dict[str, tuple[str, Callable[[str], Tool]]]] = {
    "tensorboard": ("tensorboard", TensorBoardTool),
    "wandb": ("wandb", WandbTool),
    "mlflow": ("mlflow", MlflowTool),
    "trackio": ("trackio", TrackioTool),
}


def _plain_name(name: str) -> str:
    """Return a name of the characters that MLflow takes."""
    return re.sub(r"[^\w\-./ ]", "_", name)
