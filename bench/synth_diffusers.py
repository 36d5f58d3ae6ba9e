#!/usr/bin/env python3
"""Writes a random-weight model folder in the diffusers layout and of a real shape, for speed tests only.

Speed does not depend on what the weights are, so a random model of the same shape costs what the real one
costs. Its pictures are noise. Weights are F16, spread so that activations keep their size.

usage: synth_diffusers.py --shape sd15 OUT_FOLDER     (sd15: 2.1 GB; tiny-sd: the same in small)

The tokenizer is the starter model's, with room for 77 tokens.
"""
import argparse
import json
import math
import os
import pathlib
import random
import shutil
import struct

HERE = pathlib.Path(__file__).resolve().parent
STARTER = HERE.parent / "models" / "starter" / "image" / "starter-image"

SHAPES = {
    "sd15": {"unet": [320, 640, 1280, 1280], "context": 768, "heads": 8, "layers": 2, "groups": 32, "sample": 64,
             "vae": [128, 256, 512, 512], "text": (12, 768, 12, 3072), "vocab": 49408},
    "tiny-sd": {"unet": [32, 64, 64, 64], "context": 64, "heads": 4, "layers": 2, "groups": 16, "sample": 32,
                "vae": [16, 32, 32, 32], "text": (2, 64, 4, 128), "vocab": 2048},
}


class Weights:
    """Collects names and shapes; writes them as one safetensors file."""

    def __init__(self):
        self.tensors = {}

    def add(self, name, shape, kind="random"):
        self.tensors[name] = (shape, kind)

    def linear(self, name, i, o, bias=True):
        self.add(f"{name}.weight", [o, i])
        if bias:
            self.add(f"{name}.bias", [o], "zero")

    def conv(self, name, i, o, k):
        self.add(f"{name}.weight", [o, i, k, k])
        self.add(f"{name}.bias", [o], "zero")

    def norm(self, name, n):
        self.add(f"{name}.weight", [n], "one")
        self.add(f"{name}.bias", [n], "zero")

    def resnet(self, name, i, o, time=0):
        self.norm(f"{name}.norm1", i)
        self.conv(f"{name}.conv1", i, o, 3)
        if time:
            self.linear(f"{name}.time_emb_proj", time, o)
        self.norm(f"{name}.norm2", o)
        self.conv(f"{name}.conv2", o, o, 3)
        if i != o:
            self.conv(f"{name}.conv_shortcut", i, o, 1)

    def transformer(self, name, d, context):
        self.norm(f"{name}.norm", d)
        self.conv(f"{name}.proj_in", d, d, 1)
        self.conv(f"{name}.proj_out", d, d, 1)
        block = f"{name}.transformer_blocks.0"
        for i in (1, 2, 3):
            self.norm(f"{block}.norm{i}", d)
        for attention, width in (("attn1", d), ("attn2", context)):
            self.linear(f"{block}.{attention}.to_q", d, d, False)
            self.linear(f"{block}.{attention}.to_k", width, d, False)
            self.linear(f"{block}.{attention}.to_v", width, d, False)
            self.linear(f"{block}.{attention}.to_out.0", d, d)
        self.linear(f"{block}.ff.net.0.proj", d, 8 * d)
        self.linear(f"{block}.ff.net.2", 4 * d, d)

    def write(self, path, rng):
        head, offset = {"__metadata__": {"format": "pt"}}, 0
        for name in sorted(self.tensors):
            size = 2 * math.prod(self.tensors[name][0])
            head[name] = {"dtype": "F16", "shape": self.tensors[name][0], "data_offsets": [offset, offset + size]}
            offset += size
        text = json.dumps(head, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for name in sorted(self.tensors):
                file.write(values(*self.tensors[name], rng))
        print(f"{path}: {offset / 1e6:.0f} MB")


def values(shape, kind, rng):
    n = math.prod(shape)
    if kind != "random":
        return struct.pack("<e", 1.0 if kind == "one" else 0.0) * n
    # Random sign and fraction, one exponent: magnitudes from 2^e to 2^(e+1), about 1.5 * 2^e in the mean square.
    exponent = round(math.log2(1 / (1.53 * math.sqrt(math.prod(shape[1:])))))
    high = bytes((b & 0x80) | (15 + max(-14, exponent)) << 2 | (b & 3) for b in range(256))
    out = bytearray(2 * n)
    out[0::2] = rng.randbytes(n)
    out[1::2] = rng.randbytes(n).translate(high)
    return out


def unet(shape):
    w, ch, layers = Weights(), shape["unet"], shape["layers"]
    time, context, top = 4 * ch[0], shape["context"], len(ch) - 1
    w.conv("conv_in", 4, ch[0], 3)
    w.linear("time_embedding.linear_1", ch[0], time)
    w.linear("time_embedding.linear_2", time, time)
    width = ch[0]
    for i, out in enumerate(ch):
        for j in range(layers):
            w.resnet(f"down_blocks.{i}.resnets.{j}", width, out, time)
            width = out
            if i < top:
                w.transformer(f"down_blocks.{i}.attentions.{j}", out, context)
        if i < top:
            w.conv(f"down_blocks.{i}.downsamplers.0.conv", out, out, 3)
    for j in (0, 1):
        w.resnet(f"mid_block.resnets.{j}", ch[-1], ch[-1], time)
    w.transformer("mid_block.attentions.0", ch[-1], context)
    for i in range(len(ch)):
        level = top - i
        out, before = ch[level], ch[max(0, level - 1)]
        for j in range(layers + 1):
            w.resnet(f"up_blocks.{i}.resnets.{j}", width + (before if j == layers else out), out, time)
            width = out
            if i > 0:
                w.transformer(f"up_blocks.{i}.attentions.{j}", out, context)
        if i < top:
            w.conv(f"up_blocks.{i}.upsamplers.0.conv", out, out, 3)
    w.norm("conv_norm_out", ch[0])
    w.conv("conv_out", ch[0], 4, 3)
    return w


def vae_middle(w, name, d):
    for j in (0, 1):
        w.resnet(f"{name}.resnets.{j}", d, d)
    w.norm(f"{name}.attentions.0.group_norm", d)
    for part in ("to_q", "to_k", "to_v", "to_out.0"):
        w.linear(f"{name}.attentions.0.{part}", d, d)


def vae(shape):
    w, ch = Weights(), shape["vae"]
    w.conv("quant_conv", 8, 8, 1)
    w.conv("post_quant_conv", 4, 4, 1)
    for half, layers, order in (("encoder", 2, ch), ("decoder", 3, ch[::-1])):
        width = order[0]
        w.conv(f"{half}.conv_in", 3 if half == "encoder" else 4, width, 3)
        for i, out in enumerate(order):
            block = f"{half}.{'down' if half == 'encoder' else 'up'}_blocks.{i}"
            for j in range(layers):
                w.resnet(f"{block}.resnets.{j}", width, out)
                width = out
            if i < len(ch) - 1:
                w.conv(f"{block}.{'downsamplers' if half == 'encoder' else 'upsamplers'}.0.conv", out, out, 3)
        vae_middle(w, f"{half}.mid_block", ch[-1])
        w.norm(f"{half}.conv_norm_out", width)
        w.conv(f"{half}.conv_out", width, 8 if half == "encoder" else 3, 3)
    return w


def text_encoder(shape):
    w, (layers, d, _, inner) = Weights(), shape["text"]
    w.add("text_model.embeddings.token_embedding.weight", [shape["vocab"], d])
    w.add("text_model.embeddings.position_embedding.weight", [77, d])
    for i in range(layers):
        at = f"text_model.encoder.layers.{i}"
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            w.linear(f"{at}.self_attn.{part}", d, d)
        w.norm(f"{at}.layer_norm1", d)
        w.norm(f"{at}.layer_norm2", d)
        w.linear(f"{at}.mlp.fc1", d, inner)
        w.linear(f"{at}.mlp.fc2", inner, d)
    w.norm("text_model.final_layer_norm", d)
    return w


def configs(shape):
    n = len(shape["unet"])
    layers, d, heads, inner = shape["text"]
    cross = ["CrossAttnDownBlock2D"] * (n - 1) + ["DownBlock2D"]
    return {
        "unet/config.json": {
            "_class_name": "UNet2DConditionModel", "attention_head_dim": shape["heads"],
            "block_out_channels": shape["unet"], "cross_attention_dim": shape["context"],
            "down_block_types": cross, "in_channels": 4, "layers_per_block": shape["layers"], "norm_eps": 1e-5,
            "norm_num_groups": shape["groups"], "out_channels": 4, "sample_size": shape["sample"],
            "up_block_types": ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * (n - 1)},
        "vae/config.json": {
            "_class_name": "AutoencoderKL", "block_out_channels": shape["vae"],
            "down_block_types": ["DownEncoderBlock2D"] * n, "latent_channels": 4, "layers_per_block": 2,
            "norm_num_groups": shape["groups"], "up_block_types": ["UpDecoderBlock2D"] * n},
        "text_encoder/config.json": {
            "hidden_act": "quick_gelu", "hidden_size": d, "intermediate_size": inner, "num_attention_heads": heads,
            "num_hidden_layers": layers, "max_position_embeddings": 77, "vocab_size": shape["vocab"]},
        "scheduler/scheduler_config.json": {
            "_class_name": "DDIMScheduler", "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear",
            "steps_offset": 1, "set_alpha_to_one": False, "clip_sample": False},
    }


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--shape", choices=SHAPES, default="sd15")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("out")
    a = ap.parse_args()
    shape, rng = SHAPES[a.shape], random.Random(a.seed)
    unet(shape).write(f"{a.out}/unet/diffusion_pytorch_model.safetensors", rng)
    vae(shape).write(f"{a.out}/vae/diffusion_pytorch_model.safetensors", rng)
    text_encoder(shape).write(f"{a.out}/text_encoder/model.safetensors", rng)
    for name, config in configs(shape).items():
        path = pathlib.Path(a.out, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(config, indent=2) + "\n")
    shutil.copy(STARTER / "model_index.json", a.out)
    shutil.copytree(STARTER / "tokenizer", pathlib.Path(a.out, "tokenizer"), dirs_exist_ok=True)
    tokenizer = pathlib.Path(a.out, "tokenizer", "tokenizer_config.json")
    tokenizer.write_text(tokenizer.read_text().replace('"model_max_length": 32', '"model_max_length": 77'))


if __name__ == "__main__":
    main()
