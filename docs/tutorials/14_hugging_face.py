# %% [markdown]
# # Hugging Face
#
# Models of transformers become flow graphs without a rewrite. In this tutorial you switch a GPT-2, train it, look at every
# value inside, find the place where it keeps a fact, and save it with transformers' own files. It takes about ten minutes.
# You need `pip install 'flodl[hf,torch]'`; nothing is downloaded.
#
# ## Switch a model
#
# Any `PreTrainedModel` works, one of `from_pretrained` too. This one is small and new. `flodl.hf.graph` ports the model
# file of your transformers, once, and switches the classes of the model. The logits are the same bits:

# %%
import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel

import flodl
import flodl.hf

torch.manual_seed(1)
config = GPT2Config(vocab_size=10, n_positions=6, n_embd=32, n_layer=2, n_head=2)
config.attn_pdrop = config.embd_pdrop = config.resid_pdrop = 0.0
model = GPT2LMHeadModel(config)

tokens = torch.randint(0, 10, (4, 6))
before = model(input_ids=tokens).logits
flodl.hf.graph(model)
print(torch.equal(model(input_ids=tokens).logits, before), type(model).__name__)

# %% [markdown]
# The object, its weights and its `state_dict` keys are those from before.
#
# ## Train it
#
# The task is to remember: after six digits, the next one is the first. The loop is plain PyTorch. `Trainer` of
# transformers, LoRA of peft and `accelerate` work as well.

# %%
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for _ in range(200):
    digits = torch.randint(0, 10, (64, 6))
    logits = model(input_ids=digits).logits[:, -1]
    loss = F.cross_entropy(logits, digits[:, 0])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

model.eval()
clean = torch.tensor([[3, 1, 4, 1, 5, 9]])
other = torch.tensor([[7, 1, 4, 1, 5, 9]])
print([model(input_ids=each).logits[0, -1].argmax().item() for each in (clean, other)])

# %% [markdown]
# ## Every value by name
#
# The names are those that the authors of GPT-2 gave in transformers. No hook is needed, and nothing is kept that you do
# not name:

# %%
view = flodl.view(model)
names = [each.name for each in view.names("transformer.h.0.attn.*_states")]
print(names)

_, kept = view.run_with_cache(input_ids=clean, names="transformer.h.*.attn.query_states")
print({name: tuple(value.shape) for name, value in kept.items()})

# %% [markdown]
# ## Where does it keep the digit?
#
# Activation patching gives an answer: run the model on the other digits, but replace one value by that of the clean run.
# If the prediction becomes 3, this value carries the digit. The states after each block are `hidden_states`:

# %%
_, cache = view.run_with_cache(input_ids=clean, names="transformer.h.*.hidden_states")


def effect(block: int, position: int) -> float:
    name = f"transformer.h.{block}.hidden_states"

    def patch(states):
        states = states.clone()
        states[:, position] = cache[name][:, position]
        return states

    with torch.no_grad(), view.intervene({name: patch}):
        logits = model(input_ids=other).logits
    return logits[0, -1].softmax(-1)[3].item()


for block in range(2):
    effects = [effect(block, position) for position in range(6)]
    best = max(range(6), key=effects.__getitem__)
    print("after block", block, "position", best, "gives 3:", effects[best] > 0.5)

# %% [markdown]
# Already the first block moves the digit to the last position, where the model predicts.
#
# ## Stop in the middle
#
# `upto` is the model that ends at a value. It shares the weights and trains, so it is a feature extractor:

# %%
features = view.upto("transformer.h.0.mlp")
print(tuple(features(input_ids=clean).shape))

# %% [markdown]
# ## Save it
#
# `save_pretrained` writes the files of transformers, which do not know flodl. Every other program reads them:

# %%
model.save_pretrained("remembering")
again = GPT2LMHeadModel.from_pretrained("remembering").eval()
print(torch.equal(again(input_ids=clean).logits, model(input_ids=clean).logits))
print(
    isinstance(model.transformer, flodl.FlowModule),
    isinstance(again.transformer, flodl.FlowModule),
)

# %% [markdown]
# ## Where next
#
# - [Models of Hugging Face](../how-to/hugging-face.md): heads by task, families, limits.
# - [Values by name](../how-to/observation.md#every-value-by-name): patterns, callbacks, captured gradients.
# - [The graph tree](10_graph_tree.py): freeze and load parts by path.
