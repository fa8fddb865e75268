#!/usr/bin/env python3
"""Measures a checkpoint: bits per byte, task exact match, accepted draft length, confidence calibration.

    evaluate.py --model DIR --corpus DIR [--test FILE] [--out FILE.json] [--what bits,tasks,drafts,argmax,samples]

Task answers count as right if every token of the expected answer and the end token is the argmax given those
before it: what greedy decoding would write. `argmax` writes texts and the argmax at each position, for comparing
with the engine.
"""
import argparse
import json
import os

import torch

import checkpoint
import data
from engine_order import EngineNano
from model import Nano

SAMPLES = ["Once upon a time there was a little fox who", "The old man opened the door and",
           "Long ago, in a country by the sea,"]

def batch_of(docs, device, length=None):
    n = length or max(len(d) for d in docs)
    n += n % 2
    t = torch.full((len(docs), n), data.PAD)
    for i, d in enumerate(docs):
        t[i, :len(d)] = torch.tensor(d)
    first = torch.zeros(len(docs), n, dtype=torch.uint8)
    first[:, 0] = 1
    pos = torch.arange(n).repeat(len(docs), 1)
    return {k: v.to(device) for k, v in dict(tokens=t, pos=pos, first=first, seg=torch.zeros_like(t)).items()}


def held_out_texts(corpus, tok, kinds, budget, longest=2048):
    """Token lists of held-out documents, about budget tokens; every k-th document, so that all files count."""
    docs = [d for k, out, d in data.text_documents(corpus) if out and k in kinds]
    step, got, n = max(1, len(docs) // 40), [], 0
    for d in (d for k in range(step) for d in docs[k::step]):
        if n >= budget:
            break
        ids = ([data.BOS] + tok.encode(d))[:longest]
        got.append(ids[:budget - n] if n + len(ids) > budget + 16 else ids)
        n += len(got[-1])
    return [g for g in got if len(g) > 1]


class Bench:
    def __init__(self, model, tok, device):
        self.model, self.tok, self.device = model, tok, device
        with torch.no_grad():
            self.W, self.D = model.weights(), model.weights(draft=True)
        self.size = [len(tok.token_bytes(i)) if i > 2 else 0 for i in range(tok.vocab_size)]

    def run(self, docs, exact=True):
        self.model.exact = exact
        b = batch_of(docs, self.device)
        out = self.model.forward(self.W, b)
        return b, out, self.model.logits(self.W, out["h"], out["pre"]).float()

    def bits(self, docs):
        nll, n_bytes, n = 0.0, 0, 0
        for d in docs:
            _, _, logits = self.run([d])
            t = torch.tensor(d[1:], device=self.device)
            nll -= logits[0, :len(d) - 1].log_softmax(-1).gather(-1, t[:, None]).sum().item()
            n_bytes += sum(self.size[i] for i in d[1:])
            n += len(d) - 1
        return dict(bits_per_byte=nll / 0.6931471805599453 / n_bytes, tokens=n, bytes=n_bytes, nll_per_token=nll / n)

    def tasks(self, path, limit=0):
        by, rows = {}, []
        with open(path) as f:
            for line in f:
                e = json.loads(line)
                p = data.chat_pieces(e["messages"])
                ids = self.tok.encode_batch([t for t, _ in p])
                answer = ids[-1]
                rows.append((sum(ids[:-1], []), answer, e["task"]))
        if limit:
            rows = rows[:limit]
        rows.sort(key=lambda r: len(r[0]) + len(r[1]))
        at = 0
        while at < len(rows):
            n = max(1, min(64, 12000 // (len(rows[at][0]) + 200)))
            part, at = rows[at:at + n], at + n
            _, _, logits = self.run([q + r for q, r, _ in part])
            best = logits.argmax(-1).tolist()
            for (q, r, task), b in zip(part, best):
                ok = b[len(q) - 1:len(q) - 1 + len(r)] == r
                c = by.setdefault(task, [0, 0])
                c[0] += ok
                c[1] += 1
                if task == "retrieve" and len(q) <= 700:
                    c = by.setdefault("retrieve, prompt up to 700 tokens", [0, 0])
                    c[0] += ok
                    c[1] += 1
        return {k: dict(right=v[0], of=v[1], rate=round(v[0] / v[1], 4)) for k, v in sorted(by.items())}

    def generate(self, prompts, n, temperature, gen):
        docs, done = [list(p) for p in prompts], [False] * len(prompts)
        for _ in range(n):
            _, _, logits = self.run(docs, exact=False)
            last = torch.stack([logits[i, len(d) - 1] for i, d in enumerate(docs)])
            if temperature == 0:
                pick = last.argmax(-1)
            else:
                pick = torch.multinomial((last / temperature).softmax(-1), 1, generator=gen)[:, 0]
            for i, t in enumerate(pick.tolist()):
                if not done[i]:
                    docs[i].append(t)
                    done[i] = t == data.EOS
            if all(done):
                break
        return docs

    def drafts(self, docs, starts, temperature, gen):
        """Accepted length (the target's own token included) along texts the target wrote, and calibration."""
        m, c = self.model, self.model.c
        b, out, logits = self.run(docs, exact=False)
        wins = m.draft_windows(self.D, m.main_x(self.D, out["taps"]), out["geometry"]["cs"][0])
        emitted = steps = 0
        conf_all, acc_all = [], []
        for i, (d, s) in enumerate(zip(docs, starts)):
            if len(d) - c.block <= s:                # too short to hold a whole block
                continue
            p = torch.arange(s - 1, len(d) - c.block - 1, device=self.device)
            back = p[:, None] - torch.arange(c.window - 1, -1, -1, device=p.device)
            ahead = b["tokens"][i][p[:, None] + 1 + torch.arange(c.block + 1, device=p.device)]
            z, base, _ = m.draft(self.W, self.D, [w[i][back.clamp_min(0)] for w in wins], (back >= 0)[:, None],
                                 ahead[:, :1], p[:, None] + 1)
            z, base = z[:, 0], base[:, 0]
            pt = logits[i][p[:, None] + 1 + torch.arange(c.block, device=p.device)].softmax(-1)
            lg, cf = m.draft_heads(self.D, z, base, ahead[:, :-1])
            pd = lg.softmax(-1)
            conf_all.append(torch.sigmoid(cf).flatten())
            acc_all.append((1 - 0.5 * (pd - pt).abs().sum(-1)).flatten())
            if temperature == 0:
                prev = ahead[:, :1].repeat(1, c.block)
                for k in range(c.block):
                    lg, _ = m.draft_heads(self.D, z, base, prev)
                    got = lg[:, k].argmax(-1)
                    if k + 1 < c.block:
                        prev[:, k + 1] = got
                final = torch.cat([prev[:, 1:], got[:, None]], 1)
                ok = final == ahead[:, 1:]
            else:
                x = ahead[:, 1:, None]
                ratio = (pd.gather(-1, x) / pt.gather(-1, x))[..., 0].clamp_max(1)
                ok = torch.rand(ratio.shape, generator=gen, device=p.device) < ratio
            a = ok.long().cumprod(1).sum(1).tolist()
            at = 0
            while at < len(a):
                steps += 1
                emitted += a[at] + 1
                at += a[at] + 1
        conf, acc = torch.cat(conf_all), torch.cat(acc_all)
        ece = 0.0
        for k in range(15):
            hit = (conf >= k / 15) & (conf < (k + 1) / 15)
            if hit.any():
                ece += hit.float().mean().item() * abs(conf[hit].mean() - acc[hit].mean()).item()
        return dict(accepted_length=round(emitted / max(steps, 1), 3), steps=steps, ece=round(ece, 4),
                    mean_confidence=round(conf.mean().item(), 4), mean_acceptance=round(acc.mean().item(), 4))

    def written(self, corpus, test, limit=0, every=9):
        """{name: (temperature, texts, prompt lengths)}: what the model writes behind held-out prompts."""
        gen, out = torch.Generator(device=self.device).manual_seed(1), {}
        stories = [d[:48] for d in held_out_texts(corpus, self.tok, data.KINDS[:5], 60000, 400) if len(d) > 60][:40]
        chats = []
        with open(test) as f:
            for line in list(f)[::every]:
                p = data.chat_pieces(json.loads(line)["messages"])[:-1]
                ids = sum(self.tok.encode_batch([t for t, _ in p]), [])
                if len(ids) < 200:
                    chats.append(ids)
        most = limit or 1080 // every
        for name, prompts, n in (("stories", stories[:most], 120), ("tasks", chats[:most], 48)):
            for temperature in (0, 1):
                docs = self.generate(prompts, n, temperature, gen)
                out[f"{name}, temperature {temperature}"] = temperature, docs, [len(p) for p in prompts]
        return out

    def all_drafts(self, written):
        gen = torch.Generator(device=self.device).manual_seed(2)
        return {name: self.drafts(docs, starts, temperature, gen)
                for name, (temperature, docs, starts) in written.items()}

    def samples(self):
        gen = torch.Generator(device=self.device).manual_seed(3)
        docs = self.generate([[data.BOS] + self.tok.encode(t) for t in SAMPLES], 120, 1.0, gen)
        return [self.tok.decode(d[1:]) for d in docs]

    def argmax(self, corpus):
        """20 held-out texts and the argmax behind each position."""
        docs = held_out_texts(corpus, self.tok, data.KINDS[:6], 20 * 400, 400)[:20]
        return [dict(ids=d, argmax=self.run([d])[2][0, :len(d)].argmax(-1).tolist()) for d in docs]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", required=True)
    p.add_argument("--corpus", required=True)
    p.add_argument("--test", help="task file; default CORPUS/tasks/test.jsonl")
    p.add_argument("--out")
    p.add_argument("--what", default="bits,tasks,drafts,samples")
    p.add_argument("--tokens", type=int, default=20000)
    p.add_argument("--limit", type=int, default=0, help="first task examples only")
    p.add_argument("--every", type=int, default=9, help="draft figures: every n-th task")
    p.add_argument("--engine-order", action="store_true", help="on the CPU, in the engine's order of operations")
    a = p.parse_args()
    test = a.test or os.path.join(a.corpus, "tasks", "test.jsonl")
    device = torch.device("cuda" if torch.cuda.is_available() and not a.engine_order else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = False
    tok = data.Tokenizer(os.path.join(a.model, "tokenizer.json"))
    model = checkpoint.load(a.model, tok.token_map()[0], kind=EngineNano if a.engine_order else Nano).to(device)
    bench, out, what = Bench(model, tok, device), {}, a.what.split(",")
    steps = dict(
        bits=lambda: {n: bench.bits(held_out_texts(a.corpus, bench.tok, k, a.tokens))
                      for n, k in (("stories", data.KINDS[:5]), ("general", ["general"]))},
        tasks=lambda: bench.tasks(test, a.limit),
        drafts=lambda: bench.all_drafts(bench.written(a.corpus, test, a.limit, a.every)),
        samples=bench.samples, argmax=lambda: bench.argmax(a.corpus))
    with torch.no_grad():
        for name in what:
            out[name] = steps[name]()
            if name != "argmax":
                print(json.dumps({name: out[name]}, ensure_ascii=False), flush=True)
            if a.out:
                with open(a.out, "w") as f:
                    json.dump(out, f, indent=1)


if __name__ == "__main__":
    main()
