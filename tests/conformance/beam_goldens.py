#!/usr/bin/env python3
"""What transformers' beam search finds with goldens/models/llama, for LibraryBeams.TransformersFindsTheSame.

    python3 -m venv venv && venv/bin/pip install torch==2.15.0 transformers==5.23.0
    venv/bin/python tests/conformance/beam_goldens.py DATA/goldens/models/llama > tests/conformance/beam_goldens.json

In float32 on the CPU. The model's own end token hardly ever comes, so that a case's end tokens are some that come in
its beams without any. A case is left out if its answers are not those of float64: there two beams are nearly equal.
"""
import json, random, sys

import torch, transformers

torch.set_grad_enabled(False)
transformers.logging.set_verbosity_error()


def search(model, case):
    out = model.generate(
        torch.tensor([case["prompt"]]), attention_mask=torch.ones(1, len(case["prompt"]), dtype=torch.long),
        do_sample=False, num_beams=case["width"], num_return_sequences=case["width"],
        max_new_tokens=case["max_new_tokens"], length_penalty=case["length_penalty"],
        early_stopping={0: "never", 1: True, 2: False}[case["early_stopping"]],
        eos_token_id=case["end_ids"] or -1, pad_token_id=0, return_dict_in_generate=True, output_scores=True)
    answers = []
    for row, score in zip(out.sequences.tolist(), out.sequences_scores.tolist()):
        ids = row[len(case["prompt"]):]
        ends = [i for i, token in enumerate(ids) if token in case["end_ids"]]
        answers.append({"ids": ids[:ends[0] + 1] if ends else ids, "score": round(score, 6)})
    return answers


def main():
    load = lambda dtype: transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=dtype).eval()
    model, exact = load(torch.float32), load(torch.float64)
    rng = random.Random(57)
    cases = []
    while len(cases) < 32:
        case = {"prompt": [1] + [rng.randrange(3, 320) for _ in range(rng.choice([1, 5, 20, 45]))],
                "width": rng.choice([2, 3, 4, 8, 16]), "length_penalty": rng.choice([-1.0, 0.0, 0.5, 1.0, 2.0]),
                "early_stopping": len(cases) % 3, "max_new_tokens": rng.choice([1, 6, 14, 24]), "end_ids": []}
        if rng.random() < 0.8:
            seen = sorted({token for answer in search(model, case) for token in answer["ids"]})
            case["end_ids"] = sorted(rng.sample(seen, min(len(seen), rng.choice([1, 2, 4]))))
        case["answers"] = search(model, case)
        same = [answer["ids"] for answer in search(exact, case)] == [answer["ids"] for answer in case["answers"]]
        if same:
            cases.append(case)
    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    print("{\"versions\": %s, \"cases\": [" % json.dumps(versions))
    print(",\n".join(json.dumps(case) for case in cases))
    print("]}")


main()
