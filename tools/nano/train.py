#!/usr/bin/env python3
"""Trains the nano model and its drafter and writes a checkpoint in the released layout.

    train.py --corpus DIR --out DIR                       the whole recipe on one H200
    train.py --corpus DIR --out DIR --slice 450           stop after 450 s; the state is OUT/state/state-*.npz
    train.py ... --slice 450 --resume OUT/state           go on from that state
    train.py ... --draft-from DIR                         only the drafter of the checkpoint DIR, its backbone kept
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
import draft
import evaluate
import nano_config
import optim
from model import Nano

DRAFT_STEPS = 18800
PIECES = ("pre_attention", "post_attention", "compress", "index_inputs", "index_scores", "engram", "candidates",
          "weights")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--corpus")
    p.add_argument("--out", required=True)
    p.add_argument("--tokenizer", help="tokenizer.json to use; trained on the corpus if left out")
    p.add_argument("--toy", action="store_true")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--steps", type=int, default=4000, help="backbone steps")
    p.add_argument("--stop", type=int, default=0, help="stop after this backbone step of the schedule (repeat runs)")
    p.add_argument("--draft-from", metavar="DIR", help="finished checkpoint whose drafter is trained on")
    p.add_argument("--fresh-draft", action="store_true", help="with --draft-from: its drafter anew")
    p.add_argument("--draft-steps", type=int, default=DRAFT_STEPS)
    p.add_argument("--draft-lr", type=float, default=1.0, help="factor of the draft stage's learning rates")
    p.add_argument("--draft-rows", type=int, default=3072, help="rows of the corpus that the drafter learns from")
    p.add_argument("--draft-texts", type=int, default=65536, help="texts that the backbone writes for the drafter")
    p.add_argument("--draft-length", type=int, default=192, help="tokens of such a text, its prompt included")
    p.add_argument("--draft-batch", type=int, default=32768, help="texts written at a time")
    p.add_argument("--draft-pieces", type=int, default=192, help="pieces of two windows in a draft step")
    p.add_argument("--draft-points", type=int, default=5, help="measurements of the accepted length; 0 for none")
    p.add_argument("--draft-limit", type=int, default=0, help="prompts a measurement, 0 for all")
    p.add_argument("--fit", action="store_true", help="fewer draft steps where the slice has no time for all")
    p.add_argument("--compile-cache", metavar="FILE", help="torch's compile cache: read if there, written at the end")
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
    p.add_argument("--anchors", type=int, default=32, help="draft anchors a piece")
    p.add_argument("--no-compile", action="store_true")
    p.add_argument("--no-graphs", action="store_true", help="no CUDA graphs in the draft stage")
    p.add_argument("--dense", action="store_true", help="materialised attention instead of flex")
    p.add_argument("--no-moments", action="store_true", help="leave the optimizer's moments out of the state")
    p.add_argument("--log-every", type=int, default=100)
    a = p.parse_args()
    if a.toy:
        a.steps, a.draft_steps, a.rows, a.length, a.tasks = 8, 6, 2, 128, 300
        a.workers, a.anchors, a.log_every, a.vocab = 2, 8, 4, 600
        a.draft_rows, a.draft_texts, a.draft_batch, a.draft_pieces = 4, 8, 4, 4
        a.draft_length, a.draft_points, a.draft_limit = 16, min(a.draft_points, 2), 2
    if a.draft_from:
        a.tokenizer = os.path.join(a.draft_from, "tokenizer.json")
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
    for name in PIECES:
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


def train_drafter(a, model, batches, docs, tok, opt, device, info, deadline):
    """The draft stage, see draft.py. The frozen backbone runs eagerly but for its attention: compiling it would take
    longer than what it does here."""
    for name in PIECES:
        vars(model).pop(name, None)
    if device.type == "cuda" and not a.dense:
        model.flex = torch.compile(model.attend_flex, dynamic=False)
    with torch.no_grad():
        W = model.weights()
    store = draft.gather(a, model, W, batches, docs, tok, a.seed * 100 + info["slice"], device)
    model.flex = None
    bench, written = None, None
    if a.corpus and a.draft_points:
        model.exact, bench = False, evaluate.Bench(model, tok, device)
        with torch.no_grad():
            written = bench.written(a.corpus, os.path.join(a.corpus, "tasks", "test.jsonl"), a.draft_limit, 3)

    @torch.no_grad()
    def measure(step):
        bench.D = model.weights(draft=True)
        for name, x in bench.all_drafts(written).items():
            print(f"after draft step {step}: {name}: {json.dumps(x)}", flush=True)

    heads = {k: W[k] for k in ("embed", "head")}
    reached = draft.train(a, model, opt, store, heads, device, info["draft_step"], deadline, bench and measure)
    if bench:
        measure(reached)
    return reached


# ---------------------------------------------------------------------------- main

def export(a, model, text, tok_path, path):
    """Writes the checkpoint. With --draft-from only the drafter's tensors are not those that were read."""
    config, generation, frozen = nano_config.hf_config(text), nano_config.GENERATION, None
    if a.draft_from:
        frozen = checkpoint.Store(a.draft_from)
        config, generation = (read_json(a.draft_from, f) for f in ("config.json", "generation_config.json"))
    budget = checkpoint.save(model, path, config, frozen)
    with open(tok_path, encoding="utf-8") as f:
        tokenizer = f.read()
    with open(os.path.join(path, "tokenizer.json"), "w", encoding="utf-8") as f:
        f.write(tokenizer)
    with open(os.path.join(path, "generation_config.json"), "w") as f:
        json.dump(generation, f, indent=1)
        f.write("\n")
    for k, v in sorted(budget.items(), key=lambda x: -x[1]):
        print(f"  {k:20s} {v:9d} bytes")
    total = sum(os.path.getsize(os.path.join(path, f)) for f in os.listdir(path))
    print(f"  {'all files':20s} {total:9d} bytes, {sum(p.numel() for p in model.p.values())} parameters")


def read_json(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as f:
        return json.load(f)


def build(a, text, token_map):
    """The model, fresh or (--draft-from) a checkpoint's; of that, --fresh-draft keeps the backbone."""
    model = Nano(text, token_map, a.seed)
    if not a.draft_from:
        return model
    old = checkpoint.load(a.draft_from, token_map, exact=False)
    with torch.no_grad():
        for n in old.kinds:
            if not (a.fresh_draft and n in old.names(draft=True)):
                model.param(n).copy_(old.param(n))
    return model


def read_cache(path):
    if path and os.path.exists(path):
        with open(path, "rb") as f:
            torch.compiler.load_cache_artifacts(f.read())


def write_cache(path):
    made = torch.compiler.save_cache_artifacts() if path else None
    if made:
        with open(path, "wb") as f:
            f.write(made[0])


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
    if a.draft_from:
        text = read_json(a.draft_from, "config.json")["text_config"]
    counts = {k: int(np.diff(docs.bounds)[docs.by_kind[i]].sum()) for i, k in enumerate(data.KINDS)}
    print(f"{len(docs.tokens)} tokens in {len(docs.kinds)} documents {counts}, {time.time() - t0:.0f} s", flush=True)
    info = dict(step=a.steps if a.draft_from else 0, draft_step=0, slice=0)
    if a.resume:
        info = json.loads(np.load(os.path.join(a.resume, sorted(
            f for f in os.listdir(a.resume) if f.startswith("state-"))[-1]))["info"].tobytes())
    # A later slice draws other rows.
    packer = data.Packer(docs, a.length, text["sliding_window"], a.seed * 100 + info["slice"], a.mix)
    shard_rows = max(a.rows, (512 // a.rows) * a.rows) if not a.toy else 16
    held = None
    if a.corpus and not a.toy and not a.draft_from:
        held = data.Packer(data.held_out_documents(a.corpus, tok_path), a.length, text["sliding_window"], 7,
                           a.mix).shard(0, a.rows)
    loader = data.Loader(packer, shard_rows, a.workers)

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.manual_seed(a.seed)
    read_cache(a.compile_cache)
    model = build(a, text, token_map).to(device)
    named = lambda draft: [(n, model.param(n)) for n in model.names(draft) if model.param(n).requires_grad]
    opt = optim.Optimizer(named(False), a.muon_lr, a.adam_lr, o_groups=model.c.o_groups)
    draft_opt = optim.Optimizer(named(True), a.muon_lr, a.adam_lr, o_groups=model.c.o_groups)
    if device.type == "cuda" and not a.no_compile:
        ns = torch.compile(optim.orthogonal, dynamic=False)
        torch._dynamo.config.cache_size_limit = 64
        opt.ns = ns
    kept = model.names(True) if a.draft_from else model.names() + model.names(True)
    if a.resume:
        optim.load_state(a.resume, model, opt if info["step"] < a.steps else draft_opt)
    if info["step"] < a.steps:
        compiled(model, a, device.type == "cuda")
    batches = Batches(loader, a.rows, device)
    deadline = t0 + a.slice if a.slice else None

    info["step"] = train_backbone(a, model, batches, opt, device, info, deadline, held)
    live, done = opt, info["step"] >= a.steps
    if done and a.draft_steps:
        live = draft_opt
        info["draft_step"] = train_drafter(a, model, batches, docs, tok, draft_opt, device, info, deadline)
    loader.close()
    print(f"backbone step {info['step']}/{a.steps}, draft step {info['draft_step']}/{a.draft_steps}, "
          f"{time.time() - t0:.0f} s", flush=True)
    if device.type == "cuda":
        print(f"peak memory {torch.cuda.max_memory_allocated() / 2 ** 30:.1f} GiB")
    info["slice"] += 1
    if a.toy and device.type == "cpu" and not a.draft_from and not info["loss"][1] < info["loss"][0]:
        raise SystemExit(f"toy: the loss did not fall ({info['loss'][0]:.3f} to {info['loss'][1]:.3f})")
    finished = done and info["draft_step"] >= a.draft_steps
    if not finished or a.slice:
        optim.save_state(os.path.join(a.out, "state"), model, kept, live, info,
                         moments=not a.no_moments and not finished)
    export(a, model, text, tok_path, os.path.join(a.out, "nano"))
    write_cache(a.compile_cache)


if __name__ == "__main__":
    main()
