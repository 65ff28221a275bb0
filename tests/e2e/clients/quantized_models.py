"""quantized_models.py TOKENS TEXT MODEL...

Loads what `coxswain quantize` wrote: folders by transformers, GGUF files by llama.cpp. Prints {MODEL: {n_tokens, perplexity}} as
JSON: how many tokens the model's own tokenizer makes of the file TEXT, and their perplexity in samples of TOKENS."""

import json
import math
import pathlib
import sys


def logits_of_folder(path):
    import torch
    import transformers
    transformers.utils.logging.set_verbosity_error()
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)

    def run(ids):
        with torch.inference_mode():
            return model(torch.tensor([ids])).logits[0].tolist()

    return run


def logits_of_file(path):
    import llama_cpp
    model = llama_cpp.Llama(str(path), n_ctx=512, n_batch=512, n_threads=2, logits_all=True, verbose=False)

    def run(ids):
        model.reset()
        model.eval(ids)
        return model.scores[:len(ids)].tolist()

    return run


def negative_logarithm(logits, token):
    largest = max(logits)
    return math.log(sum(math.exp(x - largest) for x in logits)) - (logits[token] - largest)


def tokens_of(path, text):
    """What the program makes of the text with its own tokenizer."""
    if path.is_file():
        import llama_cpp
        return llama_cpp.Llama(str(path), vocab_only=True, verbose=False).tokenize(text.encode(), add_bos=True, special=False)
    import transformers
    return transformers.AutoTokenizer.from_pretrained(path)(text)["input_ids"]


def look_at(path, text, window):
    ids = tokens_of(path, text)
    run = (logits_of_file if path.is_file() else logits_of_folder)(path)
    losses = []
    for first in range(0, len(ids) - 1, window):
        sample = ids[first:first + window]
        losses += map(negative_logarithm, run(sample), sample[1:])
    return {"n_tokens": len(ids), "perplexity": math.exp(sum(losses) / len(losses))}


window, text, *paths = sys.argv[1:]
text = pathlib.Path(text).read_text(encoding="utf-8")
print(json.dumps({path: look_at(pathlib.Path(path), text, int(window)) for path in paths}))
