# expected: FDL403 FDL403
# A GAN: two optimizers take turns in one turn of the loop.
import torch
import torch.nn as nn

torch.manual_seed(0)
D = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1), nn.Sigmoid())
G = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4), nn.Tanh())
criterion = nn.BCELoss()
d_optimizer = torch.optim.Adam(D.parameters(), lr=0.002)
g_optimizer = torch.optim.Adam(G.parameters(), lr=0.002)
data_loader = [torch.randn(6, 4) for _ in range(4)]


def reset_grad():
    d_optimizer.zero_grad()
    g_optimizer.zero_grad()


for epoch in range(2):
    for i, images in enumerate(data_loader):
        real_labels, fake_labels = torch.ones(6, 1), torch.zeros(6, 1)
        outputs = D(images)
        d_loss_real = criterion(outputs, real_labels)
        z = torch.randn(6, 3)
        d_loss = d_loss_real + criterion(D(G(z)), fake_labels)
        d_optimizer.zero_grad()
        g_optimizer.zero_grad()
        d_loss.backward()
        d_optimizer.step()
        z = torch.randn(6, 3)
        g_loss = criterion(D(G(z)), real_labels)
        d_optimizer.zero_grad()
        g_optimizer.zero_grad()
        g_loss.backward()
        g_optimizer.step()
        print(epoch, i, d_loss.item(), g_loss.item())
