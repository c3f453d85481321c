# %% [markdown]
# # Data
#
# `flodl.DataLoader` makes the batches. In this tutorial you give it tensors, a data set and texts, augment the samples,
# interrupt an epoch, and continue it at the same batch. It takes about ten minutes.
#
# ## From tensors
#
# Tensors with the samples in their first dimension are a data set. Names are optional:

# %%
import torch
from torch import nn

from flodl import DataLoader, FlowBuilder

images = torch.arange(1000).float().view(1000, 1, 1, 1).expand(1000, 1, 8, 8)
labels = torch.arange(1000) % 10
loader = DataLoader([images, labels], batch_size=64, names=["image", "label"], seed=0)
batch = next(loader.epoch(0))
print(batch)
print(batch["label"][:5], len(loader), "batches")

# %% [markdown]
# A batch is found by position or by name, and it unpacks: `image, label = batch`.
#
# ## Every epoch by its number
#
# The order of an epoch is computed from the seed and the number of the epoch. No generator advances, so an epoch can be
# repeated, and it does not depend on those before it:

# %%
third = [each["label"].tolist() for each in loader.epoch(3)]
again = [each["label"].tolist() for each in loader.epoch(3)]
print(third == again, third == [each["label"].tolist() for each in loader.epoch(4)])

# %% [markdown]
# For the same reason any position is found at once. After ten batches, the rest of the epoch is the same rest:

# %%
rest = [each["label"].tolist() for each in loader.epoch(3, start=10)]
print(rest == third[10:])

# %% [markdown]
# ## Your own data set
#
# Anything with `__len__` and `__getitem__` works, so every data set of torch does. A sample may be a tuple or a
# dict of tensors and numbers:


# %%
class Squares(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int):
        return {"x": torch.tensor([float(index)]), "y": float(index * index)}


squares = DataLoader(Squares(), batch_size=4, shuffle=False)
print(next(squares.epoch(0))["y"])

# %% [markdown]
# ## Where the samples live
#
# A small set whose samples stay the same is kept on the device, and a batch is one gather. Other sets are read ahead
# by a thread. `decision` names the choice and the reason:

# %%
print(loader.decision)


class Noisy(Squares):
    def __getitem__(self, index: int):
        sample = super().__getitem__(index)
        return {**sample, "x": sample["x"] + torch.randn(1)}


noisy = DataLoader(Noisy(), batch_size=4, shuffle=False, seed=1)
print(noisy.decision)

# %% [markdown]
# ## Augmentation that repeats
#
# The noise is drawn from the seed, the epoch and the position of the sample. An epoch gets the same noise again, another
# epoch gets other noise, and the generator of the program stays where it was:

# %%
torch.manual_seed(0)
state = torch.get_rng_state()
one = next(noisy.epoch(0))["x"]
same = next(noisy.epoch(0))["x"]
other = next(noisy.epoch(1))["x"]
print(torch.equal(one, same), torch.equal(one, other), torch.equal(state, torch.get_rng_state()))

# %% [markdown]
# ## Samples of different lengths
#
# Texts do not fit into one tensor. `collate` gets the list of samples and returns the tensors of the batch:

# %%
texts = ["flow", "graph", "a", "tensor", "of", "values"]


def padded(found: list[str]) -> dict[str, torch.Tensor]:
    codes = [torch.tensor([ord(letter) - 96 for letter in text]) for text in found]
    tokens = nn.utils.rnn.pad_sequence(codes, batch_first=True)
    return {"tokens": tokens, "mask": tokens > 0}


words = DataLoader(texts, 3, shuffle=False, collate=padded)
for batch in words.epoch(0):
    print(tuple(batch["tokens"].shape), batch["mask"].sum(dim=1).tolist())

# %% [markdown]
# ## Interrupted in the middle
#
# A loop over the loader itself runs through epochs. `state_dict` holds its position: four numbers. A new loader
# continues there:

# %%
whole = DataLoader(torch.arange(12), 3, seed=5)
taken = []
for batch in whole:
    taken.append(batch[0].tolist())
    if len(taken) == 2:
        saved = whole.state_dict()
        break
print(saved)

fresh = DataLoader(torch.arange(12), 3, seed=5)
fresh.load_state_dict(saved)
continued = taken + [batch[0].tolist() for batch in fresh]
print(continued == [batch[0].tolist() for batch in whole.epoch(0)])

# %% [markdown]
# `Trainer` saves this position in its checkpoints: [a resumed run](12_long_runs.py) sees the same batches.
#
# ## A mistake in a sample
#
# An error in a data set keeps its class, and names the sample, even if another thread reads it:


# %%
class Broken(Squares):
    def __getitem__(self, index: int):
        if index == 42:
            message = "the file is empty"
            raise OSError(message)
        return super().__getitem__(index)


try:
    list(DataLoader(Broken(), 10, shuffle=False).epoch(0))
except OSError as error:
    print(error)
    print(*error.__notes__, sep="\n")

# %% [markdown]
# ## With a graph
#
# A graph can know its loader. Parts with the names of inputs go into the graph, the others are targets:

# %%
graph = FlowBuilder.from_(nn.Flatten()).through(nn.Linear(64, 10)).build()
graph.set_data_loader(loader, "image")
for batch in graph.epoch(0):
    loss = nn.functional.cross_entropy(graph.forward_batch(batch), batch["label"])
print(loss.shape)

# %% [markdown]
# ## Where next
#
# - [Training](04_training.py) with a loader, and an evaluation set.
# - [Data](../how-to/data.md): samplers, streams, worker processes, well-known files, and the speed of each.
