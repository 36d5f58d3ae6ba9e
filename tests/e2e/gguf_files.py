"""Model files for tests: one cut in two, and a tiny BERT. Python's standard library only."""
import pathlib
import random
import struct


def pair(name, kind, form, value):
    """A key and its value as they stand in a file."""
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", kind) + struct.pack(form, value)


def write(path, pairs, tensors, heads, body):
    out = b"GGUF" + struct.pack("<IQQ", 3, tensors, len(pairs)) + b"".join(pairs.values()) + heads
    out += b"\0" * (-len(out) % 32)
    pathlib.Path(path).write_bytes(out + body)


class Gguf:
    """Enough of the format to cut a file in two."""
    SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def __init__(self, path):
        self.data = pathlib.Path(path).read_bytes()
        tensors, pairs = struct.unpack_from("<QQ", self.data, 8)
        self.at = 24
        self.pairs = {}  # Each as it stands in the file, by its name.
        for _ in range(pairs):
            begin = self.at
            name = self.text()
            self.value(self.number("<I"))
            self.pairs[name] = self.data[begin:self.at]
        self.tensors = []
        for _ in range(tensors):
            start = self.at
            self.text()
            dimensions = self.number("<I")
            self.at += 8 * dimensions + 4
            head = self.data[start:self.at]
            self.tensors.append((head, self.number("<Q")))
        self.base = (self.at + 31) // 32 * 32

    def number(self, form):
        value, = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def text(self):
        size = self.number("<Q")
        self.at += size
        return self.data[self.at - size:self.at].decode(errors="replace")

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            inner, count = self.number("<I"), self.number("<Q")
            for _ in range(count):
                self.value(inner)
            return None
        self.at += self.SIZES[kind]
        return None

    def write_part(self, path, pairs, number, chosen):
        pairs = {**pairs, "split.no": pair("split.no", 2, "<H", number),
                 "split.count": pair("split.count", 2, "<H", 2),
                 "split.tensors.count": pair("split.tensors.count", 5, "<i", len(self.tensors))}
        ends = sorted(offset for _, offset in self.tensors) + [len(self.data) - self.base]
        heads, body = b"", b""
        for head, offset in chosen:
            end = next(e for e in ends if e > offset)
            heads += head + struct.pack("<Q", len(body))
            body += self.data[self.base + offset:self.base + end]
            body += b"\0" * (-len(body) % 32)
        write(path, pairs, len(chosen), heads, body)

    def split(self, stem):
        half = len(self.tensors) // 2
        self.write_part(f"{stem}-00001-of-00002.gguf", self.pairs, 0, self.tensors[:half])
        self.write_part(f"{stem}-00002-of-00002.gguf", {}, 1, self.tensors[half:])
        return f"{stem}-00001-of-00002.gguf"


def write_tiny_bert(vocabulary, path, width=32, forward=64, layers=2, context=128):
    """A BERT with noise for weights and the true vocabulary of one (llama.cpp's ggml-vocab-bert-bge.gguf)."""
    source = Gguf(vocabulary)
    pairs = dict(source.pairs)
    for name, value in {"block_count": layers, "context_length": context, "embedding_length": width,
                        "feed_forward_length": forward, "attention.head_count": 2, "pooling_type": 2}.items():
        pairs[f"bert.{name}"] = pair(f"bert.{name}", 4, "<I", value)
    tokens = "tokenizer.ggml.tokens"  # Its name, two types, and then how many there are.
    words, = struct.unpack_from("<Q", pairs[tokens], 8 + len(tokens) + 4 + 4)
    rng = random.Random(1)
    heads, body, count = b"", b"", 0

    def tensor(name, *shape, value=None):
        nonlocal heads, body, count
        size = 1
        for n in shape:
            size *= n
        heads += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(shape))
        heads += struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", 0, len(body))
        noise = [rng.uniform(-0.5, 0.5) for _ in range(min(size, 4096))] if value is None else [value]
        body += (struct.pack(f"<{len(noise)}f", *noise) * (size // len(noise) + 1))[:4 * size]
        body += b"\0" * (-len(body) % 32)
        count += 1

    tensor("token_embd.weight", width, words)
    tensor("token_types.weight", width, 2)
    tensor("position_embd.weight", width, context)
    tensor("token_embd_norm.weight", width, value=1.0)
    tensor("token_embd_norm.bias", width)
    for i in range(layers):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensor(f"blk.{i}.{name}.weight", width, width)
            tensor(f"blk.{i}.{name}.bias", width)
        tensor(f"blk.{i}.ffn_up.weight", width, forward)
        tensor(f"blk.{i}.ffn_up.bias", forward)
        tensor(f"blk.{i}.ffn_down.weight", forward, width)
        tensor(f"blk.{i}.ffn_down.bias", width)
        for name in ("attn_output_norm", "layer_output_norm"):
            tensor(f"blk.{i}.{name}.weight", width, value=1.0)
            tensor(f"blk.{i}.{name}.bias", width)
    write(path, pairs, count, heads, body)
