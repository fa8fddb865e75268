#!/usr/bin/env python3
"""The engine's figures beside this code's: bits per byte on held-out text, argmax at each position.

    compare_engine.py --engine build/deepinfer --model DIR --corpus DIR --eval eval.json [--tokens 20000]

eval.json is evaluate.py's output with `bits` and `argmax`; the same tokens go through `deepinfer score`."""
import argparse
import json
import os
import subprocess
import tempfile

import torch

import data
from checkpoint import SafeFile
from evaluate import held_out_texts


def score(a, ids):
    with tempfile.TemporaryDirectory() as d:
        ids_file, out = os.path.join(d, "ids.json"), os.path.join(d, "out.safetensors")
        with open(ids_file, "w") as f:
            json.dump(ids, f)
        subprocess.run([a.engine, "score", "-m", a.model, "--token-ids", ids_file, "-o", out], check=True)
        return SafeFile(out).raw("logits")[1]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("engine", "model", "corpus", "eval"):
        p.add_argument("--" + name, required=True)
    p.add_argument("--tokens", type=int, default=20000)
    a = p.parse_args()
    tok = data.Tokenizer(os.path.join(a.model, "tokenizer.json"))
    with open(a.eval) as f:
        mine = json.load(f)
    same = n = 0
    for row in mine.get("argmax", []):
        got = score(a, row["ids"]).argmax(-1).tolist()
        same += sum(x == y for x, y in zip(got, row["argmax"]))
        n += len(got)
    if n:
        print(f"argmax equal at {same} of {n} positions of {len(mine['argmax'])} texts: {same / n:.4f}", flush=True)
    for name, kinds in (("stories", data.KINDS[:5]), ("general", ["general"])):
        nll = n_bytes = n = 0
        for ids in held_out_texts(a.corpus, tok, kinds, a.tokens):
            logp = score(a, ids)[:-1].log_softmax(-1)
            nll -= logp.gather(-1, torch.tensor(ids[1:])[:, None]).double().sum().item()
            n_bytes += sum(len(tok.token_bytes(i)) if i > 2 else 0 for i in ids[1:])
            n += len(ids) - 1
        bits, ref = nll / 0.6931471805599453 / n_bytes, mine["bits"][name]["bits_per_byte"]
        print(f"{name}: engine {bits:.5f}, training code {ref:.5f} bits a byte ({100 * (bits / ref - 1):+.3f} %), "
              f"{n} tokens", flush=True)


if __name__ == "__main__":
    main()
