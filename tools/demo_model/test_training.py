"""Tests of the packing, the model code, the template and the checkpoint. Needs the packages of requirements.txt.

    python test_training.py
"""

import pathlib
import random
import sys
import tempfile
import unittest

import numpy as np
import torch
import torch.nn.functional as F

from average import average
from decode import Exported
import export
import model as net
import tokenizer as tk
import train
from make_data import encode
from tasks import draw

CONFIG = net.make_config({**net.DRAFT, "num_hidden_layers": 2}, 400, tk.END, tk.PAD)


def small_data(folder, count=300):
    rng = random.Random(3)
    cases = [draw(rng, "train") for _ in range(count)]
    tokenizer = tk.train_tokenizer(cases, 400)
    tk.save_tokenizer(tokenizer, folder / "tokenizer")
    ids, mask, ends = [], [], []
    for i, m in encode(tokenizer, cases):
        if len(i) <= 512:
            ids, mask = ids + i, mask + m
            ends.append(len(ids))
    for name, values, kind in (("ids", ids, np.uint16), ("mask", mask, np.uint8), ("ends", ends, np.int64)):
        np.save(folder / f"{name}.npy", np.array(values, dtype=kind))


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        small_data(cls.folder)
        cls.data = train.Data(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_every_conversation_is_in_one_row_that_holds_it(self):
        seen = []
        for length, members in train.pack(self.data.lengths, 5):
            self.assertLessEqual(sum(self.data.lengths[i] for i in members), length)
            seen += members
        self.assertEqual(sorted(seen), list(range(len(self.data.lengths))))

    def test_batch_learns_the_masked_tokens_and_no_others(self):
        learned = 0
        for length, rows in train.make_batches(self.data.lengths, 5, 1024):
            ids, documents, places, targets = self.data.batch(length, rows)
            learned += len(places)
            flat = documents.flatten()
            self.assertTrue(bool((flat[places] == flat[places + 1]).all()))
            self.assertTrue(bool((ids.flatten()[places + 1] == targets).all()))
        self.assertEqual(learned, int(self.data.mask.sum()))

    def test_average_weighs_each_tensor(self):
        one, two = {"a": torch.tensor([1.0, 2.0])}, {"a": torch.tensor([5.0, -2.0])}
        self.assertTrue(torch.equal(average([one, two], [0.25, 0.75])["a"], torch.tensor([4.0, -1.0])))
        with self.assertRaises(ValueError):
            average([one, two], [1.0])

    def test_packed_conversations_do_not_see_each_other(self):
        model = net.Transformer(CONFIG).initialise(1)
        a, b = torch.randint(0, 400, (1, 20)), torch.randint(0, 400, (1, 30))
        packed = model.hidden(torch.cat((a, b), 1), torch.tensor([[1] * 20 + [2] * 30]))
        alone = model.hidden(b, torch.ones_like(b))
        torch.testing.assert_close(packed[:, 20:], alone, rtol=1e-4, atol=1e-4)

    def test_steps_with_cache_and_left_padding_equal_the_whole(self):
        model = net.Transformer(CONFIG).initialise(1)
        ids = torch.randint(7, 400, (1, 12))
        whole = model.logits(model.hidden(ids, torch.ones_like(ids)))[0, -1]
        padded = torch.cat((torch.full((1, 3), tk.PAD), ids), 1)
        valid = torch.tensor([[False] * 3 + [True] * 12])
        positions = (valid.cumsum(1) - 1).clamp(min=0)
        _, cache = model.step(padded[:, :-1], positions[:, :-1], valid[:, :-1], None)
        last, _ = model.step(padded[:, -1:], positions[:, -1:], valid, cache)
        torch.testing.assert_close(last[0], whole, rtol=1e-4, atol=1e-4)

    def test_orthogonal_has_singular_values_near_one(self):
        for shape in ((2, 96, 32), (2, 32, 96)):
            values = torch.linalg.svdvals(train.Muon.orthogonal(torch.randn(shape)))
            self.assertGreater(values.min().item(), 0.4)
            self.assertLess(values.max().item(), 1.4)

    def run_with(self, folder, *more):
        sys.argv = ["train.py", "--data", str(self.folder), "--checkpoint", str(folder), "--draft", "--dtype", "f32", "--batch", "512"]
        sys.argv += more
        train.main()
        return torch.load(folder / "checkpoint.pt")

    def test_a_resumed_run_goes_on_and_an_extended_one_starts_a_new_schedule(self):
        folder = self.folder / "run"
        half = self.run_with(folder, "--tokens", "2000", "--until", "0.4")
        self.assertLess(half["place"]["tokens"], 2000)
        first = self.run_with(folder, "--tokens", "2000")
        second = self.run_with(folder, "--tokens", "4000")
        third = self.run_with(folder, "--tokens", "2000", "--extend")
        self.assertGreater(first["place"]["step"], half["place"]["step"])
        self.assertGreater(second["place"]["step"], first["place"]["step"])
        self.assertGreater(third["place"]["total_tokens"], second["place"]["total_tokens"])
        self.assertLess(third["place"]["tokens"], second["place"]["tokens"])
        self.assertFalse(torch.equal(third["model"]["norm.weight"], second["model"]["norm.weight"]))

    def test_a_draft_of_a_teacher_learns_its_distribution(self):
        self.run_with(self.folder / "taught", "--tokens", "1000")
        teacher = self.folder / "teacher"
        sys.argv = ["export.py", "--data", str(self.folder), "--checkpoint", str(self.folder / "taught"), "--out", str(teacher), "--dtype", "f32"]
        export.main()
        plain = self.run_with(self.folder / "plain", "--tokens", "500")
        taught = self.run_with(self.folder / "draft", "--tokens", "500", "--teacher", str(teacher))
        self.assertEqual(plain["place"]["tokens"], taught["place"]["tokens"])
        model = Exported(teacher).model
        ids = torch.from_numpy(self.data.ids[None, :200].astype(np.int64))
        wanted = model.logits(model.hidden(ids, torch.ones_like(ids)))[0].softmax(-1)
        losses = []
        for saved in (plain, taught):
            model.load_state_dict(saved["model"])
            losses.append(F.cross_entropy(model.logits(model.hidden(ids, torch.ones_like(ids)))[0], wanted).item())
        self.assertLess(losses[1], losses[0])

    def test_template_renders_what_training_saw(self):
        rng = random.Random(11)
        tk.check_template([draw(rng, "train") for _ in range(1000)])


if __name__ == "__main__":
    unittest.main()
