# expected: setup builder
# A VAE: several outputs, a loss of its own, random numbers in the forward.
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
data_loader = torch.utils.data.DataLoader(torch.rand(24, 10), batch_size=6, shuffle=True)


class VAE(nn.Module):
    def __init__(self, image_size=10, h_dim=8, z_dim=3):
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(image_size, h_dim)
        self.fc2 = nn.Linear(h_dim, z_dim)
        self.fc3 = nn.Linear(h_dim, z_dim)
        self.fc4 = nn.Linear(z_dim, h_dim)
        self.fc5 = nn.Linear(h_dim, image_size)

    def encode(self, x):
        h = F.relu(self.fc1(x))
        return self.fc2(h), self.fc3(h)

    def reparameterize(self, mu, log_var):
        std = torch.exp(log_var/2)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z):
        h = F.relu(self.fc4(z))
        return torch.sigmoid(self.fc5(h))

    def forward(self, x):
        mu, log_var = self.encode(x)
        z = self.reparameterize(mu, log_var)
        x_reconst = self.decode(z)
        return x_reconst, mu, log_var


model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

# Start training
for epoch in range(2):
    for i, x in enumerate(data_loader):
        # Forward pass
        x_reconst, mu, log_var = model(x)

        # Compute reconstruction loss and kl divergence
        reconst_loss = F.binary_cross_entropy(x_reconst, x, reduction='sum')
        kl_div = - 0.5 * torch.sum(1 + log_var - mu.pow(2) - log_var.exp())

        # Backprop and optimize
        loss = reconst_loss + kl_div
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        if (i+1) % 2 == 0:
            print("Epoch[{}/2], Step [{}/{}], Reconst Loss: {:.4f}, KL Div: {:.4f}"
                  .format(epoch+1, i+1, len(data_loader), reconst_loss.item(), kl_div.item()))

    with torch.no_grad():
        # Save the sampled images
        z = torch.randn(2, 3)
        out = model.decode(z)
        out, _, _ = model(x)
        print(torch.cat([x, out]).sum().item())
