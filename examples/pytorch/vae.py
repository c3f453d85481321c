"""Variational autoencoder (Kingma and Welling, 2013) on synthetic 16x16 blobs."""

import argparse

import torch
import torch.utils.data
from torch import nn, optim
from torch.nn import functional as F

parser = argparse.ArgumentParser(description="VAE on synthetic blobs")
parser.add_argument("--batch-size", type=int, default=32, metavar="N")
parser.add_argument("--epochs", type=int, default=3, metavar="N")
parser.add_argument("--latent", type=int, default=6, metavar="D")
parser.add_argument("--seed", type=int, default=1, metavar="S")
parser.add_argument("--log-interval", type=int, default=8, metavar="N")

IMAGE_SIZE = 16


class VAE(nn.Module):
    def __init__(self, latent=6, hidden=64):
        super(VAE, self).__init__()

        self.fc1 = nn.Linear(IMAGE_SIZE * IMAGE_SIZE, hidden)
        self.fc21 = nn.Linear(hidden, latent)
        self.fc22 = nn.Linear(hidden, latent)
        self.fc3 = nn.Linear(latent, hidden)
        self.fc4 = nn.Linear(hidden, IMAGE_SIZE * IMAGE_SIZE)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, IMAGE_SIZE * IMAGE_SIZE))
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


# Reconstruction + KL divergence losses summed over all elements and batch
def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, IMAGE_SIZE * IMAGE_SIZE), reduction="sum")
    # 0.5 * sum(1 + log(sigma^2) - mu^2 - sigma^2)
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


def make_blobs(num_images):
    grid = torch.linspace(-1, 1, IMAGE_SIZE)
    centre = torch.rand(num_images, 2, 1, 1) * 1.2 - 0.6
    dy = grid.view(1, -1, 1) - centre[:, 0]
    dx = grid.view(1, 1, -1) - centre[:, 1]
    return torch.exp(-12 * (dx**2 + dy**2)).unsqueeze(1)


def train(epoch, model, loader, optimizer, log_interval):
    model.train()
    train_loss = 0
    for batch_idx, (data,) in enumerate(loader):
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data)
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
        if batch_idx % log_interval == 0:
            seen = batch_idx * len(data)
            print(f"epoch {epoch} [{seen:3d}] loss {loss.item() / len(data):.6f}")
    print(f"epoch {epoch}: average loss {train_loss / len(loader.dataset):.6f}")


def test(model, data):
    model.eval()
    with torch.no_grad():
        recon, mu, logvar = model(data)
        loss = loss_function(recon, data, mu, logvar).item() / len(data)
        sample = model.decode(torch.randn(4, model.fc21.out_features))
    print(f"test loss {loss:.6f}, brightest sampled pixel {sample.max().item():.4f}")


if __name__ == "__main__":
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    dataset = torch.utils.data.TensorDataset(make_blobs(512))
    train_loader = torch.utils.data.DataLoader(dataset, batch_size=args.batch_size, shuffle=True)
    test_data = make_blobs(64)
    model = VAE(args.latent)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(1, args.epochs + 1):
        train(epoch, model, train_loader, optimizer, args.log_interval)
    test(model, test_data)
