"""Tag the words of invented sentences with a bidirectional LSTM."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

PAD = 0
NUM_WORDS = 60
TAGS = ["DET", "ADJ", "NOUN", "VERB"]


class CharFreeEmbedding(nn.Module):
    """Word embedding plus a learned embedding of the word's shape (its last digit)."""

    def __init__(self, num_words, dim, num_shapes=10):
        super().__init__()
        self.words = nn.Embedding(num_words, dim, padding_idx=PAD)
        self.shapes = nn.Embedding(num_shapes, dim)
        self.num_shapes = num_shapes

    def forward(self, tokens):
        return self.words(tokens) + self.shapes(tokens % self.num_shapes)


class LSTMTagger(nn.Module):
    def __init__(self, embedding_dim, hidden_dim, vocab_size, tagset_size, num_layers=2):
        super(LSTMTagger, self).__init__()
        self.hidden_dim = hidden_dim
        self.word_embeddings = CharFreeEmbedding(vocab_size, embedding_dim)
        self.lstm = nn.LSTM(
            embedding_dim,
            hidden_dim,
            num_layers=num_layers,
            batch_first=True,
            dropout=0.2,
            bidirectional=True,
        )
        self.dropout = nn.Dropout(0.3)
        self.hidden2tag = nn.Linear(2 * hidden_dim, tagset_size)

    def forward(self, sentence):
        embeds = self.word_embeddings(sentence)
        lstm_out, _ = self.lstm(embeds)
        tag_space = self.hidden2tag(self.dropout(lstm_out))
        tag_scores = F.log_softmax(tag_space, dim=-1)
        return tag_scores


def make_sentences(num_sentences, length, generator):
    """DET ADJ* NOUN VERB; the tag of a word is its number modulo 4, padded at the end."""
    tokens = torch.full((num_sentences, length), PAD)
    tags = torch.full((num_sentences, length), -1)
    for row in range(num_sentences):
        num_adjectives = int(torch.randint(0, 3, (1,), generator=generator))
        pattern = ["DET"] + ["ADJ"] * num_adjectives + ["NOUN", "VERB"]
        for column, tag in enumerate(pattern[:length]):
            tag_index = TAGS.index(tag)
            choice = int(torch.randint(1, NUM_WORDS // 4, (1,), generator=generator))
            tokens[row, column] = 4 * choice + tag_index
            tags[row, column] = tag_index
    return tokens, tags


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    train_tokens, train_tags = make_sentences(128, 6, generator)
    test_tokens, test_tags = make_sentences(32, 6, generator)

    model = LSTMTagger(16, 24, NUM_WORDS + 4, len(TAGS))
    loss_function = nn.NLLLoss(ignore_index=-1)
    optimizer = optim.Adam(model.parameters(), lr=0.01)

    for epoch in range(args.epochs):
        model.train()
        for start in range(0, len(train_tokens), 16):
            sentence = train_tokens[start : start + 16]
            targets = train_tags[start : start + 16]
            model.zero_grad()
            tag_scores = model(sentence)
            loss = loss_function(tag_scores.reshape(-1, len(TAGS)), targets.reshape(-1))
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.6f}")

    model.eval()
    with torch.no_grad():
        predicted = model(test_tokens).argmax(dim=-1)
        known = test_tags != -1
        accuracy = (predicted == test_tags)[known].float().mean()
    print(f"tag accuracy {accuracy.item():.3f}")


if __name__ == "__main__":
    main()
