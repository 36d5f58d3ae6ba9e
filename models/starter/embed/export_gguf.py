#!/usr/bin/env python3
"""Writes train.py's model as GGUF in F16 (needs llama.cpp's gguf-py on PYTHONPATH).

  export_gguf.py --work DIR --out starter-embed-f16.gguf
"""
import argparse
import json
import os

import gguf
import numpy as np
import torch

import words

ap = argparse.ArgumentParser()
ap.add_argument("--work", required=True)
ap.add_argument("--out", required=True)
a = ap.parse_args()
kept = torch.load(os.path.join(a.work, "embed.pt"))
c, p = kept["config"], kept["model"]
tokens = json.load(open(os.path.join(a.work, "words.json")))

w = gguf.GGUFWriter(a.out, "bert")
w.add_type("model")
w.add_name("Lares Starter Embed")
w.add_basename("lares-starter-embed")
w.add_size_label("%.1fM" % (sum(x.numel() for x in p.values()) / 1e6))
w.add_license("Apache-2.0")
w.add_description("Very small sentence encoder for a household (English, German, Spanish)")
w.add_languages(["en", "de", "es"])
w.add_context_length(c["context"])
w.add_embedding_length(c["width"])
w.add_block_count(c["layers"])
w.add_feed_forward_length(c["forward"])
w.add_head_count(c["heads"])
w.add_layer_norm_eps(c["eps"])
w.add_causal_attention(False)
w.add_pooling_type(gguf.PoolingType.MEAN)
w.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
w.add_tokenizer_model("bert")
w.add_tokenizer_pre("default")
w.add_token_type_count(1)
w.add_token_list(tokens)
w.add_token_types([gguf.TokenType.CONTROL if t in words.SPECIAL else gguf.TokenType.NORMAL for t in tokens])
w.add_bos_token_id(words.CLS)
w.add_eos_token_id(words.SEP)
w.add_sep_token_id(words.SEP)
w.add_unk_token_id(words.UNK)
w.add_pad_token_id(words.PAD)
w.add_mask_token_id(words.MASK)

names = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "up": "ffn_up", "down": "ffn_down",
         "attn_norm": "attn_output_norm", "out_norm": "layer_output_norm"}
whole = {"tokens.weight": "token_embd.weight", "positions.weight": "position_embd.weight",
         "norm.weight": "token_embd_norm.weight", "norm.bias": "token_embd_norm.bias"}
w.add_tensor("token_types.weight", np.zeros((1, c["width"]), np.float32))
for name, tensor in p.items():
    x = tensor.float().numpy()
    if name in whole:
        out = whole[name]
    else:
        _, layer, part, kind = name.split(".")
        out = "blk.%s.%s.%s" % (layer, names[part], kind)
    half = x.ndim == 2 and not name.startswith("positions")
    w.add_tensor(out, x.astype(np.float16 if half else np.float32))
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
print(a.out, os.path.getsize(a.out))
