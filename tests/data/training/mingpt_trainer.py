# expected: setup FDL421
# minGPT: a Trainer class of the script's own, with callbacks and a sampler with replacement.
import time
from collections import defaultdict
import torch
import torch.nn as nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset
from torch.utils.data.dataloader import DataLoader


class Config:
    max_iters, batch_size, learning_rate, grad_norm_clip = 9, 4, 3e-3, 1.0


class Trainer:

    def __init__(self, config, model, train_dataset):
        self.config = config
        self.model = model
        self.optimizer = None
        self.train_dataset = train_dataset
        self.callbacks = defaultdict(list)
        self.device = 'cpu'
        self.model = self.model.to(self.device)
        self.iter_num = 0

    def add_callback(self, onevent, callback):
        self.callbacks[onevent].append(callback)

    def trigger_callbacks(self, onevent):
        for callback in self.callbacks.get(onevent, []):
            callback(self)

    def run(self):
        model, config = self.model, self.config
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate)
        train_loader = DataLoader(
            self.train_dataset,
            sampler=torch.utils.data.RandomSampler(self.train_dataset, replacement=True, num_samples=20),
            batch_size=config.batch_size,
        )
        model.train()
        self.iter_num = 0
        data_iter = iter(train_loader)
        while True:
            try:
                batch = next(data_iter)
            except StopIteration:
                data_iter = iter(train_loader)
                batch = next(data_iter)
            x, y = [t.to(self.device) for t in batch]
            logits = model(x)
            self.loss = F.cross_entropy(logits, y)
            model.zero_grad(set_to_none=True)
            self.loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.grad_norm_clip)
            self.optimizer.step()
            self.trigger_callbacks('on_batch_end')
            self.iter_num += 1
            if config.max_iters is not None and self.iter_num >= config.max_iters:
                break


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Dropout(0.1), nn.Linear(7, 3))
trainer = Trainer(Config(), net, TensorDataset(torch.randn(30, 5), torch.randint(0, 3, (30,))))
trainer.add_callback('on_batch_end', lambda t: print(t.iter_num, t.loss.item()))
trainer.run()
