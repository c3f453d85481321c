import torch
import torch.nn.functional as F

from flodl import Monitor, Trainer
from stripes_flodl import Stripes, pictures

torch.manual_seed(0)


def train_step(model, batch):
    x, y = batch
    return F.cross_entropy(model(x), y)


trained = (
    Trainer.builder(Stripes, lambda params: torch.optim.AdamW(params, lr=1e-2), train_step)
    .dataset([*pictures(256)])
    .batch_size(64)
    .num_epochs(5)
    .seed(0)
    .run_dir("runs/first")
    .resume()
    .monitor(Monitor(5, run="runs/first"))
    .run()
    .join()
)
print(trained.trend("loss").improving())
