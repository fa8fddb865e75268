"""Compares the torch model's evaluation path with golden vectors: golden_check.py DIR [case ...]."""
import json
import sys

import torch

import checkpoint
from data import PAD  # noqa: F401  (the rows below are single documents)


def rel(a, b):
    return ((a.double() - b.double()).norm() / b.double().norm()).item()


def rows(tokens):
    n = len(tokens) + len(tokens) % 2
    t = torch.full((1, n), 2)
    t[0, :len(tokens)] = tokens
    first = torch.zeros(1, n, dtype=torch.uint8)
    first[0, 0] = 1
    return dict(tokens=t, pos=torch.arange(n)[None], first=first, seg=torch.zeros(1, n, dtype=torch.int64))


def main():
    path = sys.argv[1]
    g = checkpoint.SafeFile(path + "/golden.safetensors")
    with open(path + "/golden.json") as f:
        info = json.load(f)
    model = checkpoint.load(path, g.raw("token_map")[1])
    cases = [int(a) for a in sys.argv[2:]] or range(len(info["prefill"]))
    with torch.no_grad():
        W, D = model.weights(), model.weights(draft=True)
        for i in cases:
            if f"case{i}.token_types" in g.head:
                continue
            tokens = g.raw(f"case{i}.tokens")[1].long()
            n, cap = len(tokens), {}
            out = model.forward(W, rows(tokens), capture=cap)
            ref = g.raw(f"case{i}.logits")[1]
            at = g.raw(f"case{i}.positions")[1].long() if f"case{i}.positions" in g.head else torch.arange(n)
            mine = model.logits(W, out["h"], out["pre"])[0, :n][at]
            floor = info["floor"][f"case{i}"]
            print(f"case {i}: {n} tokens, logits rel {rel(mine, ref):.2e} (order {floor['rel_order']:.2e}), argmax "
                  f"{(mine.argmax(-1) == ref.argmax(-1)).float().mean():.3f} (order {floor['top1_order']:.3f})")
            p = info["prefill"][i]
            for l in range(model.c.layers):
                if f"case{i}.hidden.{l}" in g.head:
                    r = g.raw(f"case{i}.hidden.{l}")[1].float()
                    m = cap[f"hidden.{l}"][0, :p].float()
                    msg = f"  layer {l}: hidden rel {rel(m, r):.2e}, equal {(m == r).float().mean():.4f}"
                    if f"rows.{l}" in cap:
                        e = model.c.engram.index(l)
                        msg += f", rows equal {bool((cap[f'rows.{l}'][0, :p] == g.raw(f'case{i}.engram_hash')[1][:, e]).all())}"
                    print(msg)
            drafts(model, W, D, g, i, tokens, out, p)


def drafts(model, W, D, g, i, tokens, out, p):
    """Drafts after each decoded token, anchored on the reference's own token."""
    if f"case{i}.draft_ids" not in g.head:
        return
    c, ids = model.c, g.raw(f"case{i}.draft_ids")[1].long()
    conf = g.raw(f"case{i}.draft_confidence")[1]
    n = len(tokens)
    wins = model.draft_windows(D, model.main_x(D, out["taps"]), out["geometry"]["cs"][0])
    same, total, diff = 0, 0, []
    for s in range(ids.shape[0]):
        last = p + s
        idx = torch.arange(last - c.window + 1, last + 1)
        z, base, _ = model.draft(W, D, [w[:, idx.clamp_min(0)] for w in wins], (idx >= 0)[None, None],
                                 ids[s:s + 1, :1], torch.tensor([[last + 1]]))
        logits, cf = model.draft_heads(D, z[0], base[0], ids[s:s + 1, :-1])
        same += (logits[0].argmax(-1) == ids[s, 1:]).sum().item()
        total += c.block
        diff.append((cf[0] - conf[s]).abs().median().item())
    print(f"  drafts equal {same / total:.3f} given the reference's tokens, confidence median difference "
          f"{sorted(diff)[len(diff) // 2]:.1e} ({n - p} steps)")


if __name__ == "__main__":
    main()
