# expected: setup FDL426
# pytorch/examples/time_sequence_prediction: L-BFGS and a closure.
import torch
import torch.nn as nn
import torch.optim as optim

torch.manual_seed(0)


class Sequence(nn.Module):
    def __init__(self):
        super(Sequence, self).__init__()
        self.lstm1 = nn.LSTMCell(1, 5)
        self.linear = nn.Linear(5, 1)

    def forward(self, input, future=0):
        outputs = []
        h_t = torch.zeros(input.size(0), 5)
        c_t = torch.zeros(input.size(0), 5)
        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            outputs += [self.linear(h_t)]
        return torch.cat(outputs, dim=1)


data = torch.sin(torch.arange(0, 12).float() / 2).repeat(3, 1) + torch.randn(3, 1)
seq = Sequence()
criterion = nn.MSELoss()
# use LBFGS as optimizer since we can load the whole data to train
optimizer = optim.LBFGS(seq.parameters(), lr=0.8, max_iter=4)
# begin to train
for i in range(3):
    print('STEP: ', i)

    def closure():
        optimizer.zero_grad()
        out = seq(data[:, :-1])
        loss = criterion(out, data[:, 1:])
        print('loss:', loss.item())
        loss.backward()
        return loss
    optimizer.step(closure)
    with torch.no_grad():
        print('test loss:', criterion(seq(data[:, :-1]), data[:, 1:]).item())
