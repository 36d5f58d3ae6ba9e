#!/usr/bin/env python3
"""Trains Lares Starter Embed on one or two cores.

  train.py words --work DIR                       the vocabulary
  train.py train --work DIR --minutes 60 [--threads 1] [--resume]

Contrastive: of a batch of pairs each text has to find its other half among all (InfoNCE both ways).
Pairs that mean the same thing as each other are no negatives.
"""
import argparse
import json
import math
import os
import random
import time

import torch

import pairs
import words
from model import CONFIG, Encoder

SCALE = 20.0  # 1 / temperature


def batch(r, sets, size):
    return [pairs.household(r) if i < size * 0.45 else pairs.meaning(r, sets) for i in range(size)]


def loss_of(model, vocabulary, batch):
    out = model([vocabulary.encode(a, 48) for a, _, _ in batch] + [vocabulary.encode(b, 48) for _, b, _ in batch])
    a, b = out[:len(batch)], out[len(batch):]
    numbers = {}
    meant = torch.tensor([numbers.setdefault(m, len(numbers)) for _, _, m in batch])
    same = (meant[:, None] == meant[None]) & ~torch.eye(len(batch), dtype=torch.bool)
    scores = (a @ b.T * SCALE).masked_fill(same, -1e9)
    right = torch.arange(len(batch))
    return (torch.nn.functional.cross_entropy(scores, right) + torch.nn.functional.cross_entropy(scores.T, right)) / 2


def learn_words(work):
    r, sets = random.Random(1), pairs.synsets()
    texts = [t for _ in range(60000) for t in pairs.household(r)[:2]]
    for listed, gloss, examples in sets:
        texts += [gloss, *listed, *examples]
    tokens = words.learn(texts, CONFIG["vocab"])
    json.dump(tokens, open(os.path.join(work, "words.json"), "w"), ensure_ascii=False)
    print(len(tokens), "tokens")


def train(a):
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    vocabulary = words.Words(json.load(open(os.path.join(a.work, "words.json"))))
    sets = pairs.synsets()
    model = Encoder(dict(CONFIG, vocab=len(vocabulary.tokens)))
    path = os.path.join(a.work, "embed.pt")
    step, spent, seen = 0, 0.0, 0
    if a.resume:
        kept = torch.load(path)
        model.load_state_dict(kept["model"])
        seen = kept["seen"]
    r = random.Random(2 + seen)
    flat = [p for p in model.parameters() if p.ndim < 2]
    deep = [p for p in model.parameters() if p.ndim >= 2]
    optimizer = torch.optim.AdamW([{"params": deep, "weight_decay": 0.01}, {"params": flat, "weight_decay": 0.0}],
                                  lr=a.rate, betas=(0.9, 0.98))
    mean, told, begin = None, 0.0, time.process_time()
    while spent < a.minutes * 60:
        part = spent / (a.minutes * 60)
        rate = min(1, (step + 1) / 100) * (1 if part < 0.3 else 0.5 * (1 + math.cos(math.pi * (part - 0.3) / 0.7)))
        for group in optimizer.param_groups:
            group["lr"] = a.rate * max(rate, 0.01)
        loss = loss_of(model, vocabulary, batch(r, sets, a.batch))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step, seen, spent = step + 1, seen + a.batch, time.process_time() - begin  # Of the processor, not the clock.
        mean = loss.item() if mean is None else mean + (loss.item() - mean) / 50
        if spent - told > 60:
            told = spent
            print("%5.1f min  step %d  pairs %d  loss %.3f" % (spent / 60, step, seen, mean), flush=True)
            torch.save({"model": model.state_dict(), "config": model.config, "seen": seen}, path)
    torch.save({"model": model.state_dict(), "config": model.config, "seen": seen}, path)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("what", choices=["words", "train"])
    ap.add_argument("--work", required=True)
    ap.add_argument("--minutes", type=float, default=60, help="of processor time")
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--rate", type=float, default=1e-3)
    ap.add_argument("--resume", action="store_true")
    a = ap.parse_args()
    learn_words(a.work) if a.what == "words" else train(a)
