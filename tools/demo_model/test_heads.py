"""Tests of the speculative heads: their formulas written a second time, in NumPy, against the committed golden.json; and how many
guesses are right on the greedy answers of models/demo. Needs the packages of requirements.txt.

    python test_heads.py
"""

import json
import math
import pathlib
import unittest

import numpy as np
import torch
from safetensors.torch import load_file

import heads
import speculators
import train
from decode import Exported

MODELS = pathlib.Path(__file__).resolve().parents[2] / "models"
# What each guess must reach on the answers of models/demo/golden.json, well below what was measured.
FLOORS = {"demo-medusa": [0.7], "demo-medusa2": [0.65, 0.58, 0.52], "demo-mlp-speculator": [0.65, 0.58, 0.52]}
ERF = np.vectorize(math.erf)


def medusa(tensors, config, hidden, lm_head):
    """The first version where there is a tensor "0.<layers>.weight", else the second."""
    layers, out = config["medusa_num_layers"], []
    for i in range(config["medusa_num_heads"]):
        x = hidden
        for layer in range(layers):
            y = tensors[f"{i}.{layer}.linear.weight"] @ x + tensors[f"{i}.{layer}.linear.bias"]
            x = x + y / (1 + np.exp(-y))
        out.append(tensors.get(f"{i}.{layers}.weight", lm_head) @ x)
    return out


def root_mean_square(x):
    return math.sqrt(float(np.mean(x * x)) + 1e-6)


def mlp(tensors, config, hidden, token):
    n, inner, out = config["n_predict"], config["inner_dim"], []
    w = 0.5 ** (0.5 / n)
    e = math.sqrt(1 - w * w) * math.sqrt(inner / 2)
    state = hidden / root_mean_square(hidden) / math.sqrt(2)
    for i in range(n):
        state = w * (tensors[f"speculator.proj.{min(i, 1)}.weight"] @ state) + e * tensors["speculator.emb.0.weight"][token]
        state = state / root_mean_square(state) * tensors["speculator.ln.0.weight"] + tensors["speculator.ln.0.bias"]
        state = state * 0.5 * (1 + ERF(state / math.sqrt(2)))
        out.append(tensors["speculator.head.0.weight"] @ state)
        token = int(out[-1].argmax())
    return out


class Heads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.model = Exported(MODELS / "demo")
        cls.lm_head = cls.model.model.embed_tokens.weight.detach()

    @torch.no_grad()
    def hidden(self, ids):
        ids = torch.tensor([ids])
        return self.model.model.hidden(ids, torch.ones_like(ids))[0]

    def test_golden_by_the_formulas(self):
        for name in heads.KINDS:
            config = json.loads((MODELS / name / "config.json").read_text())
            self.assertEqual((MODELS / name / config["base_model_name_or_path"]).resolve(), MODELS / "demo")
            file, = (MODELS / name).glob("*.safetensors")
            tensors = {key: t.float().numpy().astype(np.float64) for key, t in load_file(file).items()}
            entries = json.loads((MODELS / name / "golden.json").read_text())["entries"]
            self.assertGreaterEqual(len(entries), 8)
            for entry in entries:
                last = self.hidden(entry["context"])[-1]
                self.assertEqual(int((self.lm_head @ last).argmax()), entry["next"])
                last, shared = last.numpy().astype(np.float64), self.lm_head.numpy().astype(np.float64)
                logits = (mlp(tensors, config, last, entry["next"]) if config.get("model_type") == "mlp_speculator" else
                          medusa(tensors, config, last, shared))
                self.assertEqual([int(row.argmax()) for row in logits], entry["guesses"])
                for row, top in zip(logits, entry["top"], strict=True):
                    self.assertEqual(top, sorted(top, key=lambda pair: -pair[1]))
                    np.testing.assert_allclose([row[i] for i, _ in top], [x for _, x in top], rtol=1e-3, atol=1e-3)
                    self.assertGreaterEqual(top[0][1] - top[1][1], heads.GAP)
                    self.assertLessEqual(np.delete(row, [i for i, _ in top]).max(), top[-1][1] + 1e-3)

    def test_guesses_are_right_as_often_as_the_floor_says(self):
        goldens = json.loads((MODELS / "demo/golden.json").read_text())["entries"]
        answers = [(self.hidden(g["prompt_ids"] + g["ids"])[len(g["prompt_ids"]) - 1: -1], torch.tensor(g["ids"])) for g in goldens]
        for name, floors in FLOORS.items():
            shares, taken = heads.acceptance(speculators.load(MODELS / name, self.lm_head), answers)
            print(f"{name}: {[f'{share:.1%}' for share in shares]}, {taken:.2f} taken a round")
            self.assertEqual(len(shares), len(floors))
            for share, floor in zip(shares, floors):
                self.assertGreater(share, floor)

    def greedy(self, ids):
        return int((self.lm_head @ self.hidden(ids)[-1]).argmax())

    def test_targets_are_greedy_tokens_behind_a_greedy_path(self):
        prompt = [3, 1642, 338, 335, 37, 0, 4]  # "Who are you?"
        answer, = self.model.generate([prompt])
        for tokens in (answer, [*answer[:5], 20, *answer[6:]]):
            data = train.Data.__new__(train.Data)
            data.ids, data.mask = np.array(prompt + tokens), np.array([0] * len(prompt) + [1] * len(tokens))
            data.begins, data.ends, data.lengths = np.array([0]), np.array([len(data.ids)]), np.array([len(data.ids)])
            states, following, targets = heads.features(self.model.model, data, 1, 1)
            self.assertEqual(len(states), len(tokens))
            best = [self.greedy(prompt + tokens[:t]) for t in range(len(tokens))]
            for t in range(len(tokens)):
                for i in range(heads.HEADS):
                    behind = t + 1 + i
                    met = behind < len(tokens) and tokens[t: behind] == best[t: behind]
                    self.assertEqual(int(targets[t, i]), best[behind] if met else heads.NONE)
                    if behind <= len(tokens):
                        self.assertEqual(int(following[t, i]), tokens[behind - 1])
        self.assertNotEqual(answer[5], 20)


if __name__ == "__main__":
    unittest.main()
