#!/usr/bin/env python3
"""Trains the nano model and its drafter and writes a checkpoint in the released layout.

    train.py --corpus DIR --out DIR                       the whole recipe on one H200
    train.py --corpus DIR --out DIR --slice 450           stop after 450 s; the state is OUT/state/state-*.npz
    train.py ... --slice 450 --resume OUT/state           go on from that state
    train.py --toy [--corpus DIR] --out DIR               a minute on a CPU; without a corpus, made-up text

Phases: backbone (dense selection, then the configured top-k, then with the decoder's windows truncated as in
prompt replay), drafter against the frozen backbone, export.
"""
import argparse
import json
import os
import time

import numpy as np
import torch
import torch.nn.functional as F

import checkpoint
import data
import nano_config
import optim
from model import Nano

HERE = os.path.dirname(os.path.abspath(__file__))


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--corpus")
    p.add_argument("--out", required=True)
    p.add_argument("--tokenizer", help="tokenizer.json to use; trained on the corpus if left out")
    p.add_argument("--toy", action="store_true")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--steps", type=int, default=4000, help="backbone steps")
    p.add_argument("--stop", type=int, default=0, help="stop after this backbone step of the schedule (repeat runs)")
    p.add_argument("--draft-steps", type=int, default=2600)
    p.add_argument("--fit", action="store_true", help="fewer draft steps where the slice has no time for all")
    p.add_argument("--rows", type=int, default=32, help="rows of a step")
    p.add_argument("--length", type=int, default=2048, help="tokens of a row")
    p.add_argument("--mix", choices=sorted(data.MIXES), default="even", help="shares of the collections")
    p.add_argument("--tasks", type=int, default=400000, help="generated task examples")
    p.add_argument("--vocab", type=int, default=3840)
    p.add_argument("--workers", type=int, default=12)
    p.add_argument("--slice", type=float, default=0, help="seconds after which to save the state and stop")
    p.add_argument("--resume", help="folder of a saved state")
    p.add_argument("--muon-lr", type=float, default=6e-3)
    p.add_argument("--adam-lr", type=float, default=3e-3)
    p.add_argument("--anchors", type=int, default=96, help="draft anchors a row")
    p.add_argument("--no-compile", action="store_true")
    p.add_argument("--dense", action="store_true", help="materialised attention instead of flex")
    p.add_argument("--no-moments", action="store_true", help="leave the optimizer's moments out of the state")
    p.add_argument("--log-every", type=int, default=100)
    a = p.parse_args()
    if a.toy:
        a.steps, a.draft_steps, a.rows, a.length, a.tasks = 8, 3, 2, 128, 300
        a.workers, a.anchors, a.log_every, a.vocab = 2, 8, 4, 600
    return a


# ---------------------------------------------------------------------------- set-up

def documents(a, tok_path):
    if a.corpus:
        return data.prepare(a.corpus, tok_path, a.tasks, a.workers, a.seed, limit=60 if a.toy else None)
    rng = np.random.default_rng(a.seed)
    texts = [" ".join("the cat saw a red dog and %d birds ." % n for n in rng.integers(0, 99, 40)) for _ in range(60)]
    chats = [dict(task="add", messages=[dict(role="user", content=f"What is {x} + {y}?"),
                                        dict(role="assistant", content=str(x + y))])
             for x, y in rng.integers(0, 50, (300, 2))]
    return data.Documents.join([data.encode_text((tok_path, "simple", texts)), data.encode_chats((tok_path, chats, 1))])


def toy_tokenizer(path):
    """Bytes and the role tokens only."""
    alphabet = list(data.byte_alphabet().values())
    data.write_tokenizer(path, {t: i for i, t in enumerate(alphabet)}, [])


def compiled(model, a, cuda):
    """Compiles the model's pieces; each is used by all layers of its kind."""
    if a.no_compile or not cuda:
        return
    opts = dict(dynamic=False)
    for name in ("pre_attention", "post_attention", "compress", "index_inputs", "index_scores", "engram",
                 "candidates", "weights"):
        setattr(model, name, torch.compile(getattr(model, name), **opts))
    if not a.dense:
        model.flex = torch.compile(model.attend_flex, **opts)


def to_gpu(shard, device):
    tokens, classes, pos, first, seg = shard
    return dict(tokens=torch.from_numpy(tokens.astype(np.int16)).to(device), classes=torch.from_numpy(classes).to(device),
                pos=torch.from_numpy(pos).to(device), first=torch.from_numpy(first).to(device),
                seg=torch.from_numpy(seg).to(device))


class Batches:
    def __init__(self, loader, rows, device):
        self.loader, self.rows, self.device, self.buf, self.at = loader, rows, device, None, 0

    def next(self, truncated):
        if self.buf is None or self.at + self.rows > self.buf["tokens"].shape[0]:
            self.buf, self.at = to_gpu(self.loader.shard(), self.device), 0
        b = {k: v[self.at:self.at + self.rows] for k, v in self.buf.items()}
        self.at += self.rows
        b["tokens"] = b["tokens"].long()
        if not truncated:
            b["seg"] = torch.zeros_like(b["seg"])
        return b


# ---------------------------------------------------------------------------- losses

def head_loss(logits, targets, weights):
    ce = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="none").view(targets.shape)
    text = weights == 1
    return (ce * weights).sum() / weights.sum(), (ce * text).sum() / text.sum().clamp_min(1), \
        (ce * (weights > 1)).sum() / (weights > 1).sum().clamp_min(1)


def targets(batch, table):
    t = torch.cat([batch["tokens"][:, 1:], batch["tokens"][:, :1]], 1)
    c = torch.cat([batch["classes"][:, 1:], torch.zeros_like(batch["classes"][:, :1])], 1)
    return t, table[c.long()]


def schedule(step, steps, warm=100, tail=0.4):
    if step < warm:
        return (step + 1) / warm
    left = (steps - step) / (tail * steps)
    return min(1.0, max(left, 0.02))


# ---------------------------------------------------------------------------- phases

def train_backbone(a, model, batches, opt, device, info, deadline, held=None):
    start = info["step"]
    table = torch.tensor(data.WEIGHTS, device=device)
    cuda = device.type == "cuda"
    loss_of = torch.compile(lambda W, h, pre, t, w: head_loss(model.logits(W, h, pre), t, w), dynamic=False) \
        if cuda and not a.no_compile else (lambda W, h, pre, t, w: head_loss(model.logits(W, h, pre), t, w))
    gen = torch.Generator().manual_seed(a.seed + start)
    c, T, t0, t1, seen = model.c, a.length, time.time(), None, 0
    names = model.names()
    sums = torch.zeros(4, device=device)
    if held:
        held = to_gpu(held, device)
        held.update(tokens=held["tokens"].long(), seg=torch.zeros_like(held["seg"]))
    for step in range(start, a.steps):
        if deadline and time.time() > deadline or a.stop and step >= a.stop:
            return step
        part = step / a.steps
        batch = batches.next(truncated=part >= 0.7)
        sample = torch.randperm(T, generator=gen)[:64].to(device)
        W = model.weights()
        out = model.forward(W, batch, topk=c.topk if part >= 0.4 else T, sample=sample)
        t, w = targets(batch, table)
        heads = {k: W[k] for k in ("norm", "head")}
        loss, text, answer = loss_of(heads, out["h"], out["pre"], t, w)
        (loss + out["index_loss"]).backward()
        lr = schedule(step, a.steps)
        opt.step(lr)
        with torch.no_grad():
            load = torch.stack(out["loads"]).float()
            model.param("layers.bias").add_(torch.sign(load.mean(1, keepdim=True) - load), alpha=2e-3 * lr)
            sums += torch.stack([loss.detach(), text.detach(), answer.detach(), out["index_loss"].detach()])
        for n in names:
            model.param(n).grad = None
        seen += batch["tokens"].numel()
        if a.toy:
            info["loss"] = (info.get("loss", [loss.item()])[0], loss.item())
        if step == start + 8 and cuda:
            torch.cuda.synchronize()
            print(f"first steps (compilation) {time.time() - t0:.1f} s", flush=True)
            t1, seen = time.time(), 0
        if (step + 1) % a.log_every == 0:
            s = (sums / a.log_every).tolist()
            sums.zero_()
            rate = seen / (time.time() - (t1 or t0))
            worst = (load.max(1).values / load.mean(1)).max().item()
            print(f"step {step + 1}: loss {s[0]:.4f} text {s[1]:.4f} answer {s[2]:.4f} index {s[3]:.4f} "
                  f"lr {lr:.3f} worst load {worst:.2f} {rate / 1e3:.0f}k tok/s "
                  f"{time.time() - t0:.0f} s", flush=True)
        if held and (step + 1) % (5 * a.log_every) == 0:
            W = model.weights()
            out = model.forward(W, held)
            heads = {k: W[k] for k in ("norm", "head")}
            _, text, _ = loss_of(heads, out["h"], out["pre"], *targets(held, table))
            print(f"step {step + 1}: held-out text {text.item():.4f}", flush=True)
            del W, out, heads, text
    return a.steps


def draft_batch(model, W, D, batch, out, logits, rng_rows):
    """Anchors of a batch: windows, masks, ids and target distributions."""
    c = model.c
    B, T = batch["tokens"].shape
    p = rng_rows                                      # [B, A] last processed positions
    main = model.main_x(D, [t.detach() for t in out["taps"]])
    wins = model.draft_windows(D, main, out["geometry"]["cs"][0])
    back = p[..., None] - torch.arange(c.window - 1, -1, -1, device=p.device)
    ahead = p[..., None] + 1 + torch.arange(c.block + 1, device=p.device)
    doc, b = out["geometry"]["doc"], torch.arange(B, device=p.device)[:, None, None]
    here = doc.gather(1, p)[..., None]
    ok = (back >= 0) & (doc[b, back.clamp_min(0)] == here)
    valid = (ahead < T) & (doc[b, ahead.clamp_max(T - 1)] == here)
    a1 = ahead.clamp_max(T - 1)
    tokens = batch["tokens"][b, a1]                   # anchor and the tokens behind it
    windows = [w[b, back.clamp_min(0)].flatten(0, 1) for w in wins]
    target = logits[b, a1[..., :-1]].flatten(0, 1)    # [N, block, V]
    keep = valid.cummin(-1).values[..., 1:] & (batch["classes"][b, a1[..., 1:]] > 0)
    pos = batch["pos"].long().gather(1, p) + 1
    return windows, ok.flatten(0, 1), tokens.flatten(0, 1), target, keep.flatten(0, 1), pos.flatten()


def draft_loss(model, W, D, windows, ok, tokens, target, keep, pos):
    z, base, loads = model.draft(W, D, windows, ok, tokens[:, 0], pos)
    logits, conf = model.draft_heads(D, z, base, tokens[:, :-1])
    logp, logt = logits.log_softmax(-1), target.float().log_softmax(-1)
    pt = logt.exp()
    tv = 0.5 * (logp.exp() - pt).abs().sum(-1)
    kl = (pt * (logt - logp)).sum(-1)
    ce = -logp.gather(-1, tokens[:, 1:, None])[..., 0]
    accept = (1 - tv).detach()
    bce = F.binary_cross_entropy_with_logits(conf.float(), accept, reduction="none")
    w = keep * (0.85 ** torch.arange(keep.shape[1], device=keep.device))
    total = (w * (tv + 0.3 * kl + 0.1 * ce + 0.5 * bce)).sum() / w.sum()
    reach = torch.where(keep, accept, torch.zeros_like(accept)).cumprod(-1).sum(-1)
    return total, 1 + reach[keep[:, 0]].mean(), loads


def train_drafter(a, model, batches, opt, device, start, deadline):
    cuda = device.type == "cuda"
    loss_of = draft_loss
    if cuda and not a.no_compile:
        loss_of = torch.compile(lambda *x: draft_loss(model, *x), dynamic=False)
        call = lambda *x: loss_of(*x)
    else:
        call = lambda *x: draft_loss(model, *x)
    # The frozen weights claim gradients, so that the compiled forward of the first phase serves as it is.
    W = {k: tuple(x.detach().clone().requires_grad_() for x in v) if isinstance(v, tuple)
         else v.detach().clone().requires_grad_() for k, v in model.weights().items()}
    heads = {k: W[k].detach() for k in ("embed", "head")}
    names, t0 = model.names(draft=True), time.time()
    t1 = t0
    gen = torch.Generator(device=device).manual_seed(a.seed + 77 + start)
    table = torch.tensor(data.WEIGHTS, device=device)
    step = start - 1
    while step + 1 < a.draft_steps:
        step += 1
        if deadline and time.time() > deadline + 5 * a.fit:
            return step
        batch = batches.next(truncated=True)
        out = model.forward(W, batch)
        with torch.no_grad():
            logits = model.logits(W, out["h"].detach(), out["pre"].detach())
        del out["h"], out["pre"], out["index_loss"]
        D = Nano.weights(model, draft=True)
        # Anchors where the first drafted token matters: answers and told text before prompts and passages.
        worth = table[batch["classes"].long()][:, 2:] + 1e-6
        rows = torch.multinomial(worth, a.anchors, replacement=True, generator=gen)
        loss, length, loads = call(heads, D, *draft_batch(model, W, D, batch, out, logits, rows))
        loss.backward()
        lr = schedule(step, a.draft_steps, warm=50, tail=0.5)
        opt.step(lr)
        with torch.no_grad():
            load = torch.stack(loads).float()
            model.param("mtp.bias").add_(torch.sign(load.mean(1, keepdim=True) - load), alpha=2e-3 * lr)
        for n in names:
            model.param(n).grad = None
        if step == start + 5:
            t1 = time.time()
        if a.fit and deadline and step == start + 105:
            fit = step + int((deadline - time.time()) / ((time.time() - t1) / 100))
            a.draft_steps = max(step + 2, min(a.draft_steps, fit))
            print(f"draft steps: {a.draft_steps}", flush=True)
        if (step + 1) % a.log_every == 0 or step == start:
            print(f"draft step {step + 1}: loss {loss.item():.4f} expected length {length.item():.3f} "
                  f"{time.time() - t0:.0f} s", flush=True)
    return a.draft_steps


# ---------------------------------------------------------------------------- main

def export(a, model, text, tok_path, path):
    budget = checkpoint.save(model, path, nano_config.hf_config(text))
    with open(tok_path, encoding="utf-8") as f:
        tokenizer = f.read()
    with open(os.path.join(path, "tokenizer.json"), "w", encoding="utf-8") as f:
        f.write(tokenizer)
    with open(os.path.join(path, "generation_config.json"), "w") as f:
        json.dump(nano_config.GENERATION, f, indent=1)
        f.write("\n")
    for k, v in sorted(budget.items(), key=lambda x: -x[1]):
        print(f"  {k:20s} {v:9d} bytes")
    total = sum(os.path.getsize(os.path.join(path, f)) for f in os.listdir(path))
    print(f"  {'all files':20s} {total:9d} bytes, {sum(p.numel() for p in model.p.values())} parameters")


def main():
    a = arguments()
    t0 = time.time()
    os.makedirs(a.out, exist_ok=True)
    tok_path = a.tokenizer or os.path.join(a.out, "tokenizer.json")
    if not os.path.exists(tok_path):
        data.train_tokenizer(a.corpus, a.vocab, tok_path) if a.corpus else toy_tokenizer(tok_path)
    docs = documents(a, tok_path)
    tok = data.Tokenizer(tok_path)
    token_map, n_map = tok.token_map()
    text = nano_config.text_config(tok.vocab_size, n_map, a.toy)
    counts = {k: int(np.diff(docs.bounds)[docs.by_kind[i]].sum()) for i, k in enumerate(data.KINDS)}
    print(f"{len(docs.tokens)} tokens in {len(docs.kinds)} documents {counts}, {time.time() - t0:.0f} s", flush=True)
    info = dict(step=0, draft_step=0, slice=0)
    if a.resume:
        info = json.loads(np.load(os.path.join(a.resume, sorted(
            f for f in os.listdir(a.resume) if f.startswith("state-"))[-1]))["info"].tobytes())
    # A later slice draws other rows.
    packer = data.Packer(docs, a.length, text["sliding_window"], a.seed * 100 + info["slice"], a.mix)
    shard_rows = max(a.rows, (512 // a.rows) * a.rows) if not a.toy else 16
    held = None
    if a.corpus and not a.toy:
        held = data.Packer(data.held_out_documents(a.corpus, tok_path), a.length, text["sliding_window"], 7,
                           a.mix).shard(0, a.rows)
    loader = data.Loader(packer, shard_rows, a.workers)

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.manual_seed(a.seed)
    model = Nano(text, token_map, a.seed).to(device)
    named = lambda draft: [(n, model.param(n)) for n in model.names(draft) if model.param(n).requires_grad]
    opt = optim.Optimizer(named(False), a.muon_lr, a.adam_lr, o_groups=model.c.o_groups)
    draft_opt = optim.Optimizer(named(True), a.muon_lr, a.adam_lr, o_groups=model.c.o_groups)
    if device.type == "cuda" and not a.no_compile:
        ns = torch.compile(optim.orthogonal, dynamic=False)
        torch._dynamo.config.cache_size_limit = 64
        opt.ns = draft_opt.ns = ns
    if a.resume:
        optim.load_state(a.resume, model, opt if info["step"] < a.steps else draft_opt)
    compiled(model, a, device.type == "cuda")
    batches = Batches(loader, a.rows, device)
    deadline = t0 + a.slice if a.slice else None

    info["step"] = train_backbone(a, model, batches, opt, device, info, deadline, held)
    live, done = opt, info["step"] >= a.steps
    if done and a.draft_steps:
        live = draft_opt
        info["draft_step"] = train_drafter(a, model, batches, draft_opt, device, info["draft_step"], deadline)
    loader.close()
    print(f"backbone step {info['step']}/{a.steps}, draft step {info['draft_step']}/{a.draft_steps}, "
          f"{time.time() - t0:.0f} s", flush=True)
    if device.type == "cuda":
        print(f"peak memory {torch.cuda.max_memory_allocated() / 2 ** 30:.1f} GiB")
    info["slice"] += 1
    if a.toy and device.type == "cpu" and not info["loss"][1] < info["loss"][0]:
        raise SystemExit(f"toy: the loss did not fall ({info['loss'][0]:.3f} to {info['loss'][1]:.3f})")
    finished = done and info["draft_step"] >= a.draft_steps
    if not finished or a.slice:
        optim.save_state(os.path.join(a.out, "state"), model, model.names() + model.names(True), live, info,
                         moments=not a.no_moments and not finished)
    export(a, model, text, tok_path, os.path.join(a.out, "nano"))


if __name__ == "__main__":
    main()
