#!/usr/bin/env python3
"""Checks that the engine and the evaluation path in the engine's order give the same logits.

    engine_check.py --engine build/deepinfer --model DIR [--text FILE] [--tokens 96]

Exits 1 unless nine positions in ten are equal bit for bit and the argmax at 97 % of them."""
import argparse
import os

import torch

import checkpoint
import data
from compare_engine import score
from engine_order import EngineNano
from evaluate import batch_of

TEXT = "The old cat saw 12 red birds in the garden, and then it slept under a tree until 7 o'clock. "


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--engine", required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--text", help="file whose beginning is scored; default: a built-in sentence, repeated")
    p.add_argument("--tokens", type=int, default=96)
    a = p.parse_args()
    tok = data.Tokenizer(os.path.join(a.model, "tokenizer.json"))
    text = TEXT * a.tokens
    if a.text:
        with open(a.text, encoding="utf-8") as f:
            text = f.read()
    ids = ([data.BOS] + tok.encode(text))[:a.tokens]
    model = checkpoint.load(a.model, tok.token_map()[0], kind=EngineNano)
    with torch.no_grad():
        W = model.weights()
        out = model.forward(W, batch_of([ids], "cpu"))
        mine = model.logits(W, out["h"], out["pre"])[0, :len(ids)]
    theirs = score(a, ids).float()
    equal = (mine == theirs).all(-1).sum().item()
    same = (mine.argmax(-1) == theirs.argmax(-1)).sum().item()
    print(f"engine and training code: logits equal at {equal}, argmax at {same} of {len(ids)} positions")
    if equal < 0.9 * len(ids) or same < 0.97 * len(ids):
        raise SystemExit("engine_check: FAILED, the engine's logits differ from the training code's")


if __name__ == "__main__":
    main()
