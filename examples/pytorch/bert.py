"""BERT (Devlin et al., 2018) that fills masked words of an invented language."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn

PAD, MASK, FIRST_WORD = 0, 1, 2
VOCAB_SIZE = 14


class BertEmbeddings(nn.Module):
    def __init__(self, vocab_size, hidden_size, max_length, dropout):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab_size, hidden_size, padding_idx=PAD)
        self.position_embeddings = nn.Embedding(max_length, hidden_size)
        self.norm = nn.LayerNorm(hidden_size)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("position_ids", torch.arange(max_length).unsqueeze(0))

    def forward(self, input_ids):
        positions = self.position_ids[:, : input_ids.size(1)]
        embedded = self.word_embeddings(input_ids) + self.position_embeddings(positions)
        return self.dropout(self.norm(embedded))


class SelfAttention(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_size = hidden_size // num_heads
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.output = nn.Linear(hidden_size, hidden_size)

    def split_heads(self, x):
        return x.view(x.size(0), x.size(1), self.num_heads, self.head_size).transpose(1, 2)

    def forward(self, hidden, attention_mask=None):
        query, key, value = (
            self.split_heads(layer(hidden)) for layer in (self.query, self.key, self.value)
        )
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(self.head_size)
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask[:, None, None, :] == 0, float("-inf"))
        context = torch.matmul(F.softmax(scores, dim=-1), value)
        context = context.transpose(1, 2).contiguous().view(hidden.size())
        return self.output(context)


class BertLayer(nn.Module):
    def __init__(self, hidden_size, num_heads, dropout):
        super().__init__()
        self.attention = SelfAttention(hidden_size, num_heads)
        self.attention_norm = nn.LayerNorm(hidden_size)
        self.intermediate = nn.Linear(hidden_size, 4 * hidden_size)
        self.output = nn.Linear(4 * hidden_size, hidden_size)
        self.output_norm = nn.LayerNorm(hidden_size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden, attention_mask=None):
        attended = self.dropout(self.attention(hidden, attention_mask))
        hidden = self.attention_norm(hidden + attended)
        expanded = F.gelu(self.intermediate(hidden))
        return self.output_norm(hidden + self.dropout(self.output(expanded)))


class BertForMaskedLM(nn.Module):
    def __init__(self, vocab_size, hidden_size=32, num_layers=2, num_heads=4, max_length=16):
        super().__init__()
        self.embeddings = BertEmbeddings(vocab_size, hidden_size, max_length, 0.1)
        self.layers = nn.ModuleList(
            [BertLayer(hidden_size, num_heads, 0.1) for _ in range(num_layers)]
        )
        self.decoder = nn.Linear(hidden_size, vocab_size)
        self.apply(self._init_weights)
        self.decoder.weight = self.embeddings.word_embeddings.weight

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.data.normal_(mean=0.0, std=0.08)

    def forward(self, input_ids, attention_mask=None, labels=None):
        hidden = self.embeddings(input_ids)
        for layer in self.layers:
            hidden = layer(hidden, attention_mask)
        logits = self.decoder(hidden)
        if labels is None:
            return logits
        loss = F.cross_entropy(
            logits.view(-1, logits.size(-1)), labels.view(-1), ignore_index=-100
        )
        return loss, logits


def make_texts(num_texts, length, generator):
    """The words follow each other in one order, from another start in each text."""
    words = VOCAB_SIZE - FIRST_WORD
    start = torch.randint(0, words, (num_texts, 1), generator=generator)
    tokens = FIRST_WORD + (start + torch.arange(length)) % words
    sizes = torch.randint(length // 2, length + 1, (num_texts, 1), generator=generator)
    return tokens.masked_fill(torch.arange(length) >= sizes, PAD)


def mask_words(tokens, generator):
    chosen = torch.rand(tokens.shape, generator=generator) < 0.15
    chosen &= tokens != PAD
    return tokens.masked_fill(chosen, MASK), tokens.masked_fill(~chosen, -100)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    model = BertForMaskedLM(VOCAB_SIZE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)

    model.train()
    for step in range(args.steps):
        tokens = make_texts(args.batch_size, 12, generator)
        input_ids, labels = mask_words(tokens, generator)
        loss, _ = model(input_ids, attention_mask=(tokens != PAD).long(), labels=labels)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 40 == 0:
            print(f"step {step}: loss {loss.item():.4f}")

    model.eval()
    tokens = make_texts(64, 12, generator)
    input_ids, labels = mask_words(tokens, generator)
    with torch.no_grad():
        logits = model(input_ids, attention_mask=(tokens != PAD).long())
    known = labels != -100
    accuracy = (logits.argmax(dim=-1) == labels)[known].float().mean()
    print(f"masked words found: {accuracy.item():.3f}")


if __name__ == "__main__":
    main()
