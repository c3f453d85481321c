"""A small DCGAN (Radford et al., 2015) that learns to draw horizontal and vertical bars."""

import argparse

import torch
import torch.nn as nn
import torch.optim as optim

nz = 16  # size of the latent vector
ngf = 16  # generator feature maps
ndf = 16  # discriminator feature maps


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


class Generator(nn.Module):
    def __init__(self):
        super(Generator, self).__init__()
        self.main = nn.Sequential(
            # input is Z, going into a convolution
            nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            # state size. (ngf*2) x 4 x 4
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            # state size. (ngf) x 8 x 8
            nn.ConvTranspose2d(ngf, 1, 4, 2, 1, bias=False),
            nn.Tanh(),
            # state size. 1 x 16 x 16
        )

    def forward(self, input):
        output = self.main(input)
        return output


class Discriminator(nn.Module):
    def __init__(self):
        super(Discriminator, self).__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, ndf, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ndf * 2),
            nn.LeakyReLU(0.2, inplace=True),
        )
        self.classifier = nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False)

    def forward(self, input):
        features = self.features(input)
        # minibatch spread, so that the generator does not draw one picture only
        spread = features.std(dim=0, keepdim=True).mean()
        output = torch.sigmoid(self.classifier(features) + 0.1 * spread)
        return output.view(-1, 1).squeeze(1)


def real_batch(batch_size):
    images = torch.full((batch_size, 1, 16, 16), -1.0)
    for image in images:
        position = int(torch.randint(2, 13, (1,)))
        if torch.rand(1) < 0.5:
            image[:, position : position + 2, :] = 1.0
        else:
            image[:, :, position : position + 2] = 1.0
    return images


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.0002)
    parser.add_argument("--beta1", type=float, default=0.5)
    opt = parser.parse_args()

    torch.manual_seed(999)
    netG = Generator()
    netG.apply(weights_init)
    netD = Discriminator()
    netD.apply(weights_init)

    criterion = nn.BCELoss()
    optimizerD = optim.Adam(netD.parameters(), lr=opt.lr, betas=(opt.beta1, 0.999))
    optimizerG = optim.Adam(netG.parameters(), lr=opt.lr, betas=(opt.beta1, 0.999))

    for step in range(1, opt.steps + 1):
        # (1) update D: maximize log(D(x)) + log(1 - D(G(z)))
        netD.zero_grad()
        label = torch.full((opt.batch_size,), 1.0)
        errD_real = criterion(netD(real_batch(opt.batch_size)), label)
        errD_real.backward()
        noise = torch.randn(opt.batch_size, nz, 1, 1)
        fake = netG(noise)
        label.fill_(0.0)
        errD_fake = criterion(netD(fake.detach()), label)
        errD_fake.backward()
        errD = errD_real + errD_fake
        optimizerD.step()

        # (2) update G: maximize log(D(G(z)))
        netG.zero_grad()
        label.fill_(1.0)
        errG = criterion(netD(fake), label)
        errG.backward()
        optimizerG.step()

        if step % 5 == 0:
            print(f"[{step}/{opt.steps}] loss_D {errD.item():.6f} loss_G {errG.item():.6f}")


if __name__ == "__main__":
    main()
