"""Measure loaders beside torch's own, in one run; the exit code is 1 if a bar is missed.

Usage: `python benchmarks/data.py [--device cuda]`.

Every loader shuffles the same data set in batches of 256 and hands over tensors on the device. The
numbers are medians over epochs of microseconds per batch, with the spread of the middle half.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator

import torch
from torch.utils import data as torch_data

from flodl import Batch, DataLoader
from flodl.data.order import permuted

BATCH = 256
EPOCHS = 7
RESIDENT_TIMES = 4.0
RESUME_MS = 50.0
FAR = 10**6


class Pictures(torch_data.Dataset[tuple[torch.Tensor, int]]):
    """Reads one sample at a time, as data sets mostly do."""

    def __init__(self, images: torch.Tensor, labels: list[int]) -> None:
        self.images = images
        self.labels = labels

    def __len__(self) -> int:
        """Return the number of pictures."""
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        """Return a picture and its label."""
        return self.images[index], self.labels[index]


Epoch = Callable[[int], Iterator[object]]


def torchs(dataset: torch_data.Dataset[object], device: torch.device, workers: int) -> Epoch:
    """Return epochs of torch's loader, used as its documentation says."""
    on_gpu = device.type == "cuda"
    loader = torch_data.DataLoader(
        dataset,
        BATCH,
        shuffle=True,
        drop_last=True,
        pin_memory=on_gpu,
        num_workers=workers,
        persistent_workers=workers > 0,
    )

    def epoch(_: int) -> Iterator[object]:
        for batch in loader:
            yield [part.to(device, non_blocking=True) for part in batch]

    return epoch


def flodls(dataset: object, device: torch.device, **settings: object) -> Epoch:
    """Return epochs of flodl's loader."""
    return DataLoader(dataset, BATCH, device=device, **settings).epoch


def microseconds(epoch: Epoch, number: int, device: torch.device) -> float:
    """Return the time per batch of one epoch."""
    begin = time.perf_counter()
    count = sum(1 for _ in epoch(number))
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return (time.perf_counter() - begin) / count * 1e6


def compare(title: str, loaders: dict[str, Epoch], device: torch.device) -> dict[str, float]:
    """Time all loaders in turn, so that a slow moment of the machine hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in loaders}
    for epoch in loaders.values():
        microseconds(epoch, 0, device)
    for number in range(1, EPOCHS + 1):
        for name, epoch in loaders.items():
            times[name].append(microseconds(epoch, number, device))
    medians = {name: statistics.median(each) for name, each in times.items()}
    base = medians["torch default"]
    print(f"\n{title}")
    for name, each in times.items():
        low, _, high = statistics.quantiles(each, n=4)
        print(
            f"  {name:<24}{medians[name]:>9.0f} us{low:>9.0f} -{high:>6.0f}"
            f"{base / medians[name]:>8.1f} x"
        )
    return medians


def loading(device: torch.device) -> int:
    """Compare on tensors and on a data set that reads sample by sample; return missed bars."""
    images, labels = torch.randn(20_000, 1, 28, 28), torch.randint(0, 10, (20_000,))
    missed = 0
    for title, dataset in (
        ("20,000 x 28 x 28 in tensors", torch_data.TensorDataset(images, labels)),
        ("20,000 x 28 x 28 sample by sample", Pictures(images, labels.tolist())),
    ):
        medians = compare(
            title,
            {
                "torch default": torchs(dataset, device, 0),
                "torch, 2 workers": torchs(dataset, device, 2),
                "flodl streaming": flodls(dataset, device, mode="streaming"),
                "flodl resident": flodls(dataset, device, mode="resident"),
            },
            device,
        )
        ratio = medians["torch default"] / medians["flodl resident"]
        missed += ratio < RESIDENT_TIMES
        verdict = "  missed" if ratio < RESIDENT_TIMES else ""
        print(
            f"  resident against torch default: {ratio:.1f} x, bar {RESIDENT_TIMES:.0f}{verdict}"
        )
    return missed


class Rows:
    """More samples than anybody has."""

    def __len__(self) -> int:
        """Return a large number."""
        return 10**10

    def get_batch(self, indices: list[int]) -> torch.Tensor:
        """Return the indices."""
        return torch.tensor(indices)


def resuming() -> int:
    """Print how long the first batch after a resume takes; return missed bars."""
    loader = DataLoader(Rows(), 1, mode="streaming", prefetch=0)
    print("\nfirst batch of an epoch of 10,000,000,000 samples that goes on at")
    missed = 0
    for start in (0, 1000, FAR, 10**9):
        took = []
        for number in range(EPOCHS):
            begin = time.perf_counter()
            batch: Batch = next(loader.epoch(number, start=start))
            took.append((time.perf_counter() - begin) * 1e3)
            assert batch.size == 1
        middle = statistics.median(took)
        missed += middle > RESUME_MS
        verdict = "  missed" if middle > RESUME_MS else ""
        print(f"  {start:>13,}{middle:>12.1f} ms   bar {RESUME_MS:.0f}{verdict}")
    begin = time.perf_counter()
    permuted(10**9, 1, 0, 10**6)
    print(f"  order of 1,000,000 samples of 10^9: {(time.perf_counter() - begin) * 1e3:.0f} ms")
    return missed


def main() -> int:
    """Run everything; return 1 if a bar is missed."""
    device = torch.device("cuda" if "cuda" in sys.argv else "cpu")
    if device.type == "cpu":
        torch.set_num_threads(1)
    print(f"batches of {BATCH} on {device}, shuffled")
    return 1 if loading(device) + resuming() else 0


if __name__ == "__main__":
    sys.exit(main())
