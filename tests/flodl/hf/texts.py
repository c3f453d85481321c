"""A tokenizer trained here, and small random models with heads."""

import torch

TEXTS = [
    "the sky is blue and the sea is deep",
    "anna lives in rome , and paul lives in paris",
    "a long day ends in the quiet town",
    "where does anna live ?",
]
SIZES = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "num_labels": 3, "pad_token_id": 0,
}  # fmt: skip


def tokenizer(library, **more):
    """Return a fast tokenizer of word pieces, as that of BERT."""
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.train_from_iterator(TEXTS, trainers.WordPieceTrainer(vocab_size=60, special_tokens=names))
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = dict(zip(("pad", "unk", "cls", "sep", "mask"), names, strict=True))
    settings = {f"{name}_token": text for name, text in special.items()} | more
    return library.PreTrainedTokenizerFast(
        tokenizer_object=made, model_input_names=["input_ids", "attention_mask"],
        model_max_length=64, **settings,
    )  # fmt: skip


def model(library, family, head, texts, **more):
    """Return e.g. `BertForMaskedLM`, random and in eval mode, for the vocabulary of a tokenizer."""
    torch.manual_seed(0)
    settings = SIZES | {"vocab_size": len(texts)} | more
    if head == "ForQuestionAnswering":
        settings |= {"num_labels": 2}
    if family == "DistilBert":
        settings |= {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}
    found = getattr(library, f"{family}{head}")(getattr(library, f"{family}Config")(**settings))
    # A new model answers nearly the same everywhere: wider weights make the scores differ.
    with torch.no_grad():
        for each in found.parameters():
            each.mul_(4.0 if each.dim() > 1 else 1.0)
    return found.eval()
