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


class Tiny:
    """A small model with noise for weights and the vocabulary of another file."""

    def __init__(self, source, architecture, width):
        self.pairs = dict(Gguf(source).pairs)
        self.architecture, self.width = architecture, width
        name = architecture.encode()
        self.pairs["general.architecture"] = (pair("general.architecture", 8, "<Q", len(name)) + name)
        self.set(context_length=1024, embedding_length=width, block_count=2)
        tokens = "tokenizer.ggml.tokens"  # Its name, two types, and then how many there are.
        self.words, = struct.unpack_from("<Q", self.pairs[tokens], 8 + len(tokens) + 4 + 4)
        self.rng = random.Random(1)
        self.heads, self.body, self.count = b"", b"", 0
        self.tensor("token_embd.weight", width, self.words)

    def set(self, **values):
        for name, value in values.items():
            name = f"{self.architecture}.{name.replace('__', '.')}"
            self.pairs[name] = pair(name, *((6, "<f") if isinstance(value, float) else (4, "<I")), value)

    def tensor(self, name, *shape, value=None):
        size = 1
        for n in shape:
            size *= n
        self.heads += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(shape))
        self.heads += struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", 0, len(self.body))
        noise = [self.rng.uniform(-0.5, 0.5) for _ in range(min(size, 4096))] if value is None else [value]
        self.body += (struct.pack(f"<{len(noise)}f", *noise) * (size // len(noise) + 1))[:4 * size]
        self.body += b"\0" * (-len(self.body) % 32)
        self.count += 1

    def layer(self, i, ones=(), **shapes):
        for name in ones:
            self.tensor(f"blk.{i}.{name}.weight", self.width, value=1.0)
        for name, shape in shapes.items():
            self.tensor(f"blk.{i}.{name}.weight", *shape)

    def write(self, path):
        write(path, self.pairs, self.count, self.heads, self.body)


def word(name, value):
    """A key with a text."""
    return pair(name, 8, "<Q", len(value)) + value.encode()


def write_adapter(base, path, architecture, width, layers=2, rank=4):
    """A LoRA adapter of noise for the queries of the first layers."""
    file = Tiny(base, architecture, width)
    file.pairs = {"type": word("general.type", "adapter"), "architecture": word("general.architecture", architecture),
                  "kind": word("adapter.type", "lora"), "alpha": pair("adapter.lora.alpha", 6, "<f", float(rank))}
    file.heads, file.body, file.count = b"", b"", 0
    for i in range(layers):
        file.tensor(f"blk.{i}.attn_q.weight.lora_a", width, rank)
        file.tensor(f"blk.{i}.attn_q.weight.lora_b", rank, width)
    file.write(path)


def write_tiny_bert(vocabulary, path, width=32, forward=64, layers=2, context=128):
    """A BERT with the true vocabulary of one (llama.cpp's ggml-vocab-bert-bge.gguf)."""
    file = Tiny(vocabulary, "bert", width)
    file.set(block_count=layers, context_length=context, feed_forward_length=forward, attention__head_count=2,
             pooling_type=2)
    file.tensor("token_types.weight", width, 2)
    file.tensor("position_embd.weight", width, context)
    file.tensor("token_embd_norm.weight", width, value=1.0)
    file.tensor("token_embd_norm.bias", width)
    for i in range(layers):
        square = (width, width)
        file.layer(i, ("attn_output_norm", "layer_output_norm"), attn_q=square, attn_k=square, attn_v=square,
                   attn_output=square, ffn_up=(width, forward), ffn_down=(forward, width))
        for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_down", "attn_output_norm", "layer_output_norm"):
            file.tensor(f"blk.{i}.{name}.bias", width)
        file.tensor(f"blk.{i}.ffn_up.bias", forward)
    file.write(path)


def write_tiny_mamba(vocabulary, path, width=32, inner=64, state=8, convolution=4, rank=4):
    """A running state and no KV cache."""
    file = Tiny(vocabulary, "mamba", width)
    file.set(ssm__conv_kernel=convolution, ssm__inner_size=inner, ssm__state_size=state, ssm__time_step_rank=rank,
             attention__head_count=0, feed_forward_length=0, attention__layer_norm_rms_epsilon=1e-5)
    file.tensor("output_norm.weight", width, value=1.0)
    for i in range(2):
        file.layer(i, ("attn_norm",), ssm_in=(width, 2 * inner), ssm_conv1d=(convolution, inner),
                   ssm_x=(inner, rank + 2 * state), ssm_dt=(rank, inner), ssm_out=(inner, width))
        file.tensor(f"blk.{i}.ssm_conv1d.bias", inner)
        file.tensor(f"blk.{i}.ssm_dt.bias", inner)
        file.tensor(f"blk.{i}.ssm_a", state, inner, value=-1.0)
        file.tensor(f"blk.{i}.ssm_d", inner, value=1.0)
    file.write(path)


def write_tiny_gemma2(vocabulary, path, width=32, head=16, forward=64, window=64):
    """Every other layer attends only to the last `window` tokens."""
    file = Tiny(vocabulary, "gemma2", width)
    file.set(attention__head_count=2, attention__head_count_kv=1, attention__key_length=head,
             attention__value_length=head, attention__sliding_window=window, feed_forward_length=forward,
             attention__layer_norm_rms_epsilon=1e-5)
    file.tensor("output_norm.weight", width, value=1.0)
    for i in range(2):
        file.layer(i, ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"), attn_q=(width, 2 * head),
                   attn_k=(width, head), attn_v=(width, head), attn_output=(2 * head, width),
                   ffn_gate=(width, forward), ffn_up=(width, forward), ffn_down=(forward, width))
    file.write(path)
