"""Graph convolutional network (Kipf and Welling, 2016) that finds communities of a random graph."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class GraphConvolution(nn.Module):
    """Mean of the neighbours' features, each weighed by the degrees of both ends, then a linear map."""

    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_features, out_features))
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, edge_index):
        source, target = edge_index[0], edge_index[1]
        ones = torch.ones(source.size(0), dtype=x.dtype, device=x.device)
        degree = torch.zeros(x.size(0), dtype=x.dtype, device=x.device).index_add(0, target, ones)
        scale = degree.clamp(min=1).rsqrt()
        support = x @ self.weight
        messages = support[source] * (scale[source] * scale[target]).unsqueeze(1)
        out = torch.zeros_like(support).index_add(0, target, messages)
        if self.bias is not None:
            out = out + self.bias
        return out


class GCN(nn.Module):
    def __init__(self, num_features, hidden, num_classes, dropout=0.5):
        super().__init__()
        self.gc1 = GraphConvolution(num_features, hidden)
        self.gc2 = GraphConvolution(hidden, num_classes)
        self.dropout = dropout

    def forward(self, x, edge_index):
        x = F.relu(self.gc1(x, edge_index))
        x = F.dropout(x, self.dropout, training=self.training)
        x = self.gc2(x, edge_index)
        return F.log_softmax(x, dim=1)


def make_graph(num_nodes, num_classes, num_features, generator):
    """Nodes of one community are linked ten times as often; features hardly tell it."""
    labels = torch.randint(0, num_classes, (num_nodes,), generator=generator)
    same = labels.unsqueeze(0) == labels.unsqueeze(1)
    chance = torch.where(same, 0.2, 0.02)
    linked = (torch.rand(num_nodes, num_nodes, generator=generator) < chance).triu(1)
    linked = linked | linked.t() | torch.eye(num_nodes, dtype=torch.bool)
    centres = torch.randn(num_classes, num_features, generator=generator)
    features = centres[labels] + 2.0 * torch.randn(num_nodes, num_features, generator=generator)
    return features, linked.nonzero().t().contiguous(), labels


def main():
    parser = argparse.ArgumentParser(description="GCN on a random graph")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    features, edge_index, labels = make_graph(120, 3, 8, generator)
    order = torch.randperm(len(labels), generator=generator)
    train_nodes, test_nodes = order[:40], order[40:]

    model = GCN(features.size(1), args.hidden, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=5e-4)

    for epoch in range(args.epochs):
        model.train()
        optimizer.zero_grad()
        output = model(features, edge_index)
        loss = F.nll_loss(output[train_nodes], labels[train_nodes])
        loss.backward()
        optimizer.step()
        if (epoch + 1) % 10 == 0:
            print(f"epoch {epoch + 1}: loss {loss.item():.4f}")

    model.eval()
    with torch.no_grad():
        predicted = model(features, edge_index).argmax(dim=1)
    accuracy = (predicted == labels)[test_nodes].float().mean()
    print(f"accuracy {accuracy.item():.3f}")


if __name__ == "__main__":
    main()
