# expected: FDL403 FDL403
# Encoder and decoder with an optimizer each.
import torch
import torch.nn as nn

torch.manual_seed(0)
encoder, decoder = nn.GRU(3, 4), nn.Linear(4, 3)
encoder_optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
decoder_optimizer = torch.optim.SGD(decoder.parameters(), lr=0.1)
for x in torch.randn(5, 6, 2, 3):
    encoder_optimizer.zero_grad()
    decoder_optimizer.zero_grad()
    out, _ = encoder(x)
    loss = (decoder(out) - x).square().mean()
    loss.backward()
    encoder_optimizer.step()
    decoder_optimizer.step()
    print(loss.item())
