# expected: setup builder
# Batches that are tables, as of the Hugging Face libraries; the model computes its loss.
import torch
import torch.nn as nn
from collections import namedtuple

Output = namedtuple("Output", "loss logits")


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 6)
        self.head = nn.Linear(6, 2)

    def forward(self, input_ids, attention_mask, labels):
        hidden = self.embed(input_ids) * attention_mask[..., None]
        logits = self.head(hidden.mean(1))
        return Output(nn.functional.cross_entropy(logits, labels), logits)


torch.manual_seed(0)
rows = [{"input_ids": torch.randint(0, 20, (7,)), "attention_mask": torch.ones(7), "labels": torch.tensor(n % 2)}
        for n in range(12)]
train_dataloader = torch.utils.data.DataLoader(rows, shuffle=True, batch_size=4)
device = torch.device("cpu")
model = Classifier()
model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-2)
lr_scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 9)
model.train()
for epoch in range(3):
    for batch in train_dataloader:
        batch = {k: v.to(device) for k, v in batch.items()}
        outputs = model(**batch)
        loss = outputs.loss
        loss.backward()

        optimizer.step()
        lr_scheduler.step()
        optimizer.zero_grad()
        print(loss.item())
