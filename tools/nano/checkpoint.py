"""Reading and writing checkpoints in the released layout."""
import json
import os
import struct

import numpy as np
import torch

import quant
from model import Nano

DTYPES = {"F32": (torch.float32, 4), "BF16": (torch.bfloat16, 2), "F8_E4M3": (torch.float8_e4m3fn, 1),
          "F8_E8M0": (torch.uint8, 1), "I8": (torch.int8, 1), "U8": (torch.uint8, 1), "I64": (torch.int64, 8),
          "I32": (torch.int32, 4)}
E2M1 = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6])


class SafeFile:
    def __init__(self, path):
        with open(path, "rb") as f:
            n = struct.unpack("<Q", f.read(8))[0]
            self.head = json.loads(f.read(n))
        self.head.pop("__metadata__", None)
        self.data = np.memmap(path, np.uint8, "r", 8 + n)

    def raw(self, name):
        h = self.head[name]
        a, b = h["data_offsets"]
        t = torch.from_numpy(self.data[a:b].copy()).view(DTYPES[h["dtype"]][0])
        return h["dtype"], t.view(h["shape"])


class Store:
    """A checkpoint directory: tensors by name, sharded or not."""

    def __init__(self, path):
        index = os.path.join(path, "model.safetensors.index.json")
        if os.path.exists(index):
            with open(index) as f:
                where = json.load(f)["weight_map"]
        else:
            where = dict.fromkeys(SafeFile(os.path.join(path, "model.safetensors")).head, "model.safetensors")
        files = {f: SafeFile(os.path.join(path, f)) for f in set(where.values())}
        self.where = {n: files[f] for n, f in where.items()}

    def raw(self, name):
        return self.where[name].raw(name)

    def value(self, name):
        """F32 value of a plain tensor, or of a quantized one named without .weight."""
        if name in self.where:
            return self.raw(name)[1].float()
        dtype, w = self.raw(name + ".weight")
        if name + ".scale" not in self.where:
            return w.float()
        s = torch.exp2(self.raw(name + ".scale")[1].float() - 127)
        if dtype == "I8":
            u = w.view(torch.uint8).long()
            w = torch.stack([E2M1[u & 15], E2M1[u >> 4]], -1).flatten(-2)
        w = w.float()
        if dtype == "F8_E4M3" and s.shape[0] != w.shape[0]:
            s = s.repeat_interleave(32, 0)[:w.shape[0]]
        elif dtype == "F8_E4M3" and ".engram.embed" not in name:
            s = s.repeat_interleave(32, 0)[:w.shape[0]]
        return w * s.repeat_interleave(32, 1)[:, :w.shape[1]]


def tensor_names(c):
    """Stacked parameter name -> tensor name in the layout, for each slice: {(name, index...): text}."""
    out = {("embed",): "embed.weight", ("head",): "head.weight", ("norm",): "norm.weight"}
    for stack, n, experts in (("layers", c.layers, c.experts), ("mtp", c.drafts, c.d_experts)):
        for l in range(n):
            p = f"{stack}.{l}."
            for k in ("wq_a", "wq_b", "wkv", "wo_a", "wo_b"):
                out[f"{stack}.{k}", l] = p + "attn." + k
            for k in ("q_norm", "kv_norm"):
                out[f"{stack}.{k}", l] = p + f"attn.{k}.weight"
            for k in ("attn_norm", "ffn_norm"):
                out[f"{stack}.{k}", l] = p + k + ".weight"
            out[f"{stack}.sink", l] = p + "attn.attn_sink"
            for a in ("attn", "ffn"):
                for k in ("fn", "base", "scale"):
                    out[f"{stack}.hc_{a}_{k}", l] = p + f"hc_{a}_{k}"
            out[f"{stack}.gate", l], out[f"{stack}.bias", l] = p + "ffn.gate.weight", p + "ffn.gate.bias"
            for i in "123":
                out[f"{stack}.s{i}", l] = p + f"ffn.shared_experts.w{i}"
                for e in range(experts):
                    out[f"{stack}.w{i}", l, e] = p + f"ffn.experts.{e}.w{i}"
    gates = 0
    for i, l in enumerate(c.kv):
        a = f"layers.{l}.attn."
        out["kv.c_wkv", i], out["kv.c_norm", i] = a + "compressor.wkv.weight", a + "compressor.norm.weight"
        out["kv.i_wk", i], out["kv.i_knorm", i] = a + "indexer.wk.weight", a + "indexer.k_norm.weight"
        if c.ratios[l] == 2:
            out["kv.c_wgate", gates] = a + "compressor.wgate.weight"
            gates += 1
    for i, l in enumerate(c.ix):
        a = f"layers.{l}.attn.indexer."
        out["ix.i_wq", i], out["ix.i_wp", i] = a + "wq_b", a + "weights_proj.weight"
    for i, l in enumerate(c.engram):
        a = f"layers.{l}.engram."
        out[f"engram.table{i}",] = a + "embed"
        out["engram.wkv", i] = a + "wkv"
        out["engram.q", i], out["engram.k", i] = a + "q_weight", a + "k_weight"
    if c.drafts:
        q = f"mtp.{c.drafts - 1}."
        out["draft.main_proj",], out["draft.main_norm",] = "mtp.0.main_proj", "mtp.0.main_norm.weight"
        out["draft.norm",] = q + "norm.weight"
        out["draft.mk_embed",] = q + "markov_head.embed.weight"
        out["draft.mk_head",] = q + "markov_head.head.weight"
        out["draft.conf",] = q + "confidence_head.proj.weight"
    return out


def load(path, token_map, exact=True, kind=Nano):
    """A model holding a checkpoint's values. Requantizing them gives the same values again."""
    with open(os.path.join(path, "config.json")) as f:
        text = json.load(f)["text_config"]
    model, store = kind(text, token_map, exact=exact), Store(path)
    with torch.no_grad():
        for key, name in tensor_names(model.c).items():
            model.param(key[0])[key[1:]].copy_(store.value(name).view(model.param(key[0])[key[1:]].shape))
    return model


def e8m0(s):
    return ((s.contiguous().view(torch.int32) >> 23) & 255).to(torch.uint8)


def encode(kind, w, name):
    """[(tensor name, dtype, tensor)] of one tensor."""
    w = w.detach().float().cpu()
    if kind == "f8":
        q, s = quant.f8_parts(w)
        return [(name + ".weight", "F8_E4M3", q.to(torch.float8_e4m3fn)), (name + ".scale", "F8_E8M0", e8m0(s))]
    if kind == "row":
        q, s = quant.row_parts(w)
        return [(name + ".weight", "F8_E4M3", q.flatten(-2).to(torch.float8_e4m3fn)),
                (name + ".scale", "F8_E8M0", e8m0(s.squeeze(-1)))]
    if kind == "f4":
        q, s = quant.f4_parts(w)
        q = q.flatten(-2)
        a = q.abs()
        code = (a[..., None] > torch.tensor([0, .5, 1, 1.5, 2, 3, 4])).sum(-1).to(torch.uint8)
        code = code | ((q < 0).to(torch.uint8) << 3)
        return [(name + ".weight", "I8", (code[..., 0::2] | code[..., 1::2] << 4).view(torch.int8)),
                (name + ".scale", "F8_E8M0", e8m0(s.squeeze(-1)))]
    if kind == "bf16":
        return [(name, "BF16", w.to(torch.bfloat16))]
    return [(name, "F32", w)]


def group_of(name):
    for key, label in (("engram.embed", "engram tables"), ("engram", "engram"), ("ffn.experts", "routed experts"),
                       ("shared_experts", "shared experts"), ("hc_", "hyper-connections"), ("markov", "markov head"),
                       ("indexer", "indexer"), ("compressor", "compressor"), ("gate", "router"),
                       ("attn.w", "attention"), ("embed.weight", "embedding"), ("head.weight", "output head")):
        if key in name:
            return label
    return "norms, sinks, rest"


def save(model, path, config, frozen=None):
    """Writes config.json and the tensors (one file and an index); returns {group: bytes}. The backbone's tensors are
    those of `frozen` (a Store), byte for byte, if it is given."""
    os.makedirs(path, exist_ok=True)
    tensors, budget = [], {}
    for key, name in tensor_names(model.c).items():
        if frozen and not key[0].startswith(("mtp.", "draft.")):
            tensors += [(n, *frozen.raw(n)) for n in (name, name + ".weight", name + ".scale") if n in frozen.where]
        else:
            tensors += encode(model.kinds[key[0]], model.param(key[0])[key[1:]], name)
    tensors.sort(key=lambda t: (t[1] not in ("F32",), t[1] != "BF16", t[0]))
    head, at = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, t in tensors:
        n = t.numel() * DTYPES[dtype][1]
        head[name] = dict(dtype=dtype, shape=list(t.shape), data_offsets=[at, at + n])
        at += n
        budget[group_of(name)] = budget.get(group_of(name), 0) + n
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file = "model-00001-of-00001.safetensors"
    with open(os.path.join(path, file), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, t in tensors:
            f.write(t.contiguous().view(torch.uint8).numpy().tobytes())
    index = dict(metadata=dict(total_size=at), weight_map={n: file for n, _, _ in sorted(tensors, key=lambda t: t[0])})
    for name, obj in (("model.safetensors.index.json", index), ("config.json", config)):
        with open(os.path.join(path, name), "w") as f:
            json.dump(obj, f, indent=1)
            f.write("\n")
    return budget
