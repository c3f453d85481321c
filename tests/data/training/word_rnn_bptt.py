# expected: setup FDL424
# pytorch/examples/word_language_model: hidden state carried on, clipping, Ctrl-C.
import torch
import torch.nn as nn

torch.manual_seed(1)
ntokens, bptt = 11, 5


class RNNModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(ntokens, 6)
        self.rnn = nn.LSTM(6, 6, 1)
        self.decoder = nn.Linear(6, ntokens)

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(self.drop(output))
        return decoded.view(-1, ntokens), hidden


def repackage_hidden(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


train_data = torch.randint(0, ntokens, (31, 4))
model = RNNModel()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)


def get_batch(source, i):
    seq_len = min(bptt, len(source) - 1 - i)
    return source[i:i+seq_len], source[i+1:i+1+seq_len].view(-1)


def train():
    model.train()
    total_loss = 0.
    hidden = (torch.zeros(1, 4, 6), torch.zeros(1, 4, 6))
    for batch, i in enumerate(range(0, train_data.size(0) - 1, bptt)):
        data, targets = get_batch(train_data, i)
        optimizer.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        total_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        total_loss += loss.item()
        if batch % 2 == 0 and batch > 0:
            print(batch, total_loss, total_norm.item())
            total_loss = 0


for epoch in range(1, 3):
    train()
