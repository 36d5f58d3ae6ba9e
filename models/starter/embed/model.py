"""A small BERT (post-norm, learned positions, GELU), mean of the last layer. Texts of a batch are packed."""
import math

import torch
import torch.nn.functional as F
from torch import nn

CONFIG = dict(vocab=8192, width=192, layers=4, heads=6, forward=640, context=256, eps=1e-12)


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        d = c["width"]
        self.heads = c["heads"]
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.up, self.down = nn.Linear(d, c["forward"]), nn.Linear(c["forward"], d)
        self.attn_norm, self.out_norm = nn.LayerNorm(d, eps=c["eps"]), nn.LayerNorm(d, eps=c["eps"])

    def forward(self, x, rows, places, shape, bias):
        d = x.shape[1]

        def spread(y):
            padded = x.new_zeros(shape[0] * shape[1], d).index_put((places,), y)
            return padded.view(shape[0], shape[1], self.heads, d // self.heads).transpose(1, 2)
        scores = spread(self.q(x)) @ spread(self.k(x)).transpose(2, 3) / math.sqrt(d // self.heads) + bias
        mixed = (scores.softmax(-1) @ spread(self.v(x))).transpose(1, 2).reshape(-1, d)[places]
        x = self.attn_norm(x + self.o(mixed))
        return self.out_norm(x + self.down(F.gelu(self.up(x), approximate="tanh")))


class Encoder(nn.Module):
    def __init__(self, c=CONFIG):
        super().__init__()
        self.config = c
        self.tokens = nn.Embedding(c["vocab"], c["width"])
        self.positions = nn.Embedding(c["context"], c["width"])
        self.norm = nn.LayerNorm(c["width"], eps=c["eps"])
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["layers"]))
        for p in self.parameters():
            if p.ndim == 2:
                nn.init.normal_(p, std=0.02 if p.shape[0] > c["width"] * 4 else p.shape[1] ** -0.5)

    def forward(self, texts):
        """Lists of token ids -> (texts, width), length 1."""
        sizes = torch.tensor([len(t) for t in texts])
        shape = (len(texts), int(sizes.max()))
        rows = torch.repeat_interleave(torch.arange(len(texts)), sizes)
        column = torch.cat([torch.arange(len(t)) for t in texts])
        places = rows * shape[1] + column
        ids = torch.tensor([i for t in texts for i in t])
        bias = torch.zeros(shape).masked_fill_(torch.arange(shape[1]) >= sizes[:, None], -1e9)[:, None, None, :]
        x = self.norm(self.tokens(ids) + self.positions(column))
        for layer in self.layers:
            x = layer(x, rows, places, shape, bias)
        mean = torch.zeros(len(texts), x.shape[1]).index_add(0, rows, x) / sizes[:, None]
        return F.normalize(mean, dim=1)
