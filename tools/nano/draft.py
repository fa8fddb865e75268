"""The draft stage: rows of text with the frozen backbone's taps, and the drafter's training on them.

The drafter meets the text that it will be used on: continuations that the backbone itself writes, at temperature 0
and 1, beside rows of the corpus. The backbone runs once over each row; what the drafter needs of it is kept."""
import time

import numpy as np
import torch
import torch.nn.functional as F

import data
from write import longest, write

CORPUS, SAMPLED, GREEDY = range(3)
SOURCES = ("corpus", "sampled", "greedy")
SHARES = (.30, .35, .35)                             # of the anchors
TOLD_KINDS = data.KINDS[:6]
CHAT_SHARE = .15                                     # of the written texts: answers to tasks


# ---------------------------------------------------------------------------- rows

def prompts(docs, n, length, rng, breaks):
    """n beginnings: tokens [n, length], sizes [n], whether the rest answers a task [n]. Of a story, its first tokens
    or those behind a line break (`breaks`: tokens that end with one)."""
    tokens = np.full((n, length), data.PAD, np.int64)
    sizes, answer = np.zeros(n, np.int64), rng.random(n) < CHAT_SHARE
    shares = np.array([data.MIXES["even"][k] * (len(docs.by_kind[i]) > 0) for i, k in enumerate(TOLD_KINDS)])
    cum = [np.cumsum(np.diff(docs.bounds)[ids]) for ids in docs.by_kind]
    chats = docs.by_kind[data.KINDS.index("chat")]
    chats = chats[docs.prompts[chats] < length * 3 // 4] if len(chats) else chats
    if not len(chats):
        answer[:] = False
    for i in range(n):
        if answer[i]:
            d = chats[rng.integers(len(chats))]
            ids = docs.tokens[docs.bounds[d]:docs.bounds[d] + docs.prompts[d]]
        else:
            kind = rng.choice(len(shares), p=shares / shares.sum())
            at = rng.integers(cum[kind][-1])
            k = np.searchsorted(cum[kind], at, side="right")
            d = docs.by_kind[kind][k]
            text = docs.tokens[docs.bounds[d] + 1:docs.bounds[d + 1] - 1]
            size = rng.integers(length // 12, length // 3) - 1
            if rng.random() < .5:
                cut = breaks[text[:max(1, len(text) - size)]]
                text = text[rng.choice(np.flatnonzero(cut)) + 1:] if cut.any() else text
            ids = np.concatenate([[data.BOS], text[:size]])
        tokens[i, :len(ids)] = ids
        sizes[i] = len(ids)
    return tokens, sizes, answer


def written_rows(a, model, W, docs, tok, seed, device):
    """About a.draft_texts texts that the model writes, packed in rows of a.length tokens: half of the batches at
    temperature 0, half at 1. Yields (batch of rows, source)."""
    row, length = a.length, min(a.draft_length, longest(model.c), a.length)
    breaks = np.array([tok.token_bytes(i).endswith(b"\n") for i in range(tok.vocab_size)])
    rng, gen = np.random.default_rng([seed, 5]), torch.Generator(device=device).manual_seed(seed)
    per, classes = row // length, torch.arange(length, device=device)
    batch = max(per, a.draft_batch // per * per)
    for k in range(2 * max(1, round(a.draft_texts / (2 * batch)))):
        source = (GREEDY, SAMPLED)[k % 2]
        p, sizes, answer = (torch.from_numpy(x).to(device) for x in prompts(docs, batch, length, rng, breaks))
        heat = torch.full((batch,), float(source == SAMPLED), device=device)
        t = write(model, W, p, sizes, heat, gen)
        told = torch.where(answer, data.W_ANSWER, data.W_TEXT)[:, None]
        c = torch.where((classes >= sizes[:, None]) & (t != data.PAD), told, data.W_NONE)
        pos = classes.expand(batch, -1)

        def pack(x, rest):
            x = x.reshape(batch // per, per * length)
            return torch.cat([x, rest.expand(len(x), -1).to(x.dtype)], 1)
        left = torch.arange(row - per * length, device=device)[None]
        out = dict(tokens=pack(t, torch.full_like(left, data.PAD)), classes=pack(c, torch.zeros_like(left)),
                   pos=pack(pos, left), first=pack(pos == 0, left == 0))
        out["seg"] = torch.zeros_like(out["pos"])
        yield out, source


class Store:
    """Rows in blocks of one window: tokens, classes, positions, documents, taps and final hidden rows."""

    def __init__(self, model, row):
        self.c, self.row, self.parts = model.c, row, []

    @torch.no_grad()
    def add(self, model, W, rows, source, chunk):
        for at in range(0, len(rows["tokens"]), chunk):
            b = {k: v[at:at + chunk] for k, v in rows.items()}
            n = len(b["tokens"])
            out = model.forward(W, {k: F.pad(v, (0, 0, 0, chunk - n)) for k, v in b.items()})
            x = model.norm(model.collapse(out["h"], out["pre"]), W["norm"])
            self.parts.append(dict(
                tokens=b["tokens"].to(torch.int16), classes=b["classes"].to(torch.uint8),
                pos=b["pos"].to(torch.int16), doc=out["geometry"]["doc"][:n].to(torch.int16),
                taps=torch.cat(out["taps"], -1)[:n], x=x[:n],
                source=torch.full((n,), source, dtype=torch.uint8, device=x.device)))

    def close(self):
        """Joins the parts and works out how often each block and each anchor in it is drawn."""
        w, table = self.c.window, torch.tensor(data.WEIGHTS, device=self.parts[0]["x"].device)
        for k in list(self.parts[0]):
            setattr(self, k, torch.cat([p.pop(k) for p in self.parts]))
        self.parts = []
        # Anchors where the first drafted token matters: answers and told text before prompts and passages.
        worth = table[self.classes.long()]
        same = F.pad(self.doc[:, 2:] == self.doc[:, :-2], (0, 2))
        worth = F.pad(worth[:, 2:], (0, 2)) * same
        self.worth = worth.view(-1, w) + 1e-6
        by_block = worth.view(-1, w).sum(1)
        source = self.source.long().repeat_interleave(self.row // w)
        total = torch.zeros(len(SOURCES), device=worth.device).index_add_(0, source, by_block)
        share = torch.tensor(SHARES, device=worth.device)
        draw = by_block * (share / total.clamp_min(1e-6))[source]
        # multinomial takes 2^24 categories at most and sums in FP32: the draw goes through the cumulative sum.
        self.cum = draw.double().cumsum(0)
        return {n: int((self.source == i).sum()) for i, n in enumerate(SOURCES)}

    @torch.no_grad()
    def draw(self, pieces, anchors, gen):
        """A batch: pieces of two windows, the anchors in the second one."""
        c, w, dev = self.c, self.c.window, self.cum.device
        u = torch.rand(pieces, generator=gen, device=dev, dtype=torch.float64) * self.cum[-1]
        block = torch.searchsorted(self.cum, u).clamp_max(len(self.cum) - 1)
        per = self.row // w
        row, i = block // per, block % per
        a = torch.multinomial(self.worth[block], anchors, replacement=True, generator=gen)      # [S, A]
        back = torch.where(i > 0, block - 1, block)
        two = lambda x: torch.cat([x.view(-1, w, *x.shape[2:])[b] for b in (back, block)], 1)
        p = i[:, None] * w + a
        here = self.doc[row[:, None], p]
        k, q = torch.arange(2 * w, device=dev), a + w
        ok = (two(self.doc)[:, None] == here[..., None]) & (k <= q[..., None]) & (k > q[..., None] - w)
        ok &= (k >= w) | (i[:, None, None] > 0)
        ahead = p[..., None] + 1 + torch.arange(c.block + 1, device=dev)
        valid = (ahead < self.row) & (self.doc[row[:, None, None], ahead.clamp_max(self.row - 1)] == here[..., None])
        ahead = ahead.clamp_max(self.row - 1)
        r = row[:, None, None]
        tokens = self.tokens[r, ahead].long()
        keep = valid.cummin(-1).values[..., 1:] & (self.classes[r, ahead[..., 1:]] > 0)
        pos = self.pos[row[:, None], p].long() + 1
        return dict(taps=two(self.taps), at=two(self.pos).long(), ok=ok, tokens=tokens, x=self.x[r, ahead[..., :-1]],
                    keep=keep, pos=pos, source=self.source[row].long())


# ---------------------------------------------------------------------------- loss

def slot_weights(a, keep):
    """The derivative of the expected accepted length by each slot's acceptance a [.., block], and a floor."""
    a = a * keep
    ahead = F.pad(a, (1, 0), value=1.0).cumprod(-1)[..., :-1]
    tail = [torch.ones_like(a[..., 0])]
    for k in range(a.shape[-1] - 1, 0, -1):
        tail.append(1 + a[..., k] * tail[-1])
    return keep * (0.1 + ahead * torch.stack(tail[::-1], -1))


def loss(model, heads, D, b):
    """(loss, sums of the expected length by source [3], counts by source [3], loads). Text that was sampled, or is the
    corpus': total variation + 0.3 KL + 0.1 cross-entropy. Greedy text, where a draft counts if it is the target's
    argmax: 0.3, 0.1 and 0.7. And the confidence's BCE against 1 - TV, all slots alike."""
    cs = model.angles(b["at"], model.f_plain)
    windows = model.draft_windows(D, model.main_x(D, [b["taps"]]), cs)
    z, base, loads = model.draft(heads, D, windows, b["ok"], b["tokens"][..., 0], b["pos"])
    logits, conf = model.draft_heads(D, z, base, b["tokens"][..., :-1])
    logp, logt = logits.log_softmax(-1), model.mm(b["x"], heads["head"]).float().log_softmax(-1)
    pt = logt.exp()
    tv = 0.5 * (logp.exp() - pt).abs().sum(-1)
    kl = (pt * (logt - logp)).sum(-1)
    ce = -logp.gather(-1, b["tokens"][..., 1:, None])[..., 0]
    accept = (1 - tv).detach()
    greedy = (b["source"] == GREEDY)[:, None, None]
    a = torch.where(greedy, torch.exp(-ce.detach()), accept)
    w = slot_weights(a, b["keep"])
    match = torch.where(greedy, 0.3 * tv + 0.1 * kl + 0.7 * ce, tv + 0.3 * kl + 0.1 * ce)
    bce = F.binary_cross_entropy_with_logits(conf.float(), accept, reduction="none")
    total = (w * match).sum() / w.sum() + 0.5 * (bce * b["keep"]).sum() / b["keep"].sum()
    length = 1 + (a * b["keep"]).cumprod(-1).sum(-1)
    one = F.one_hot(b["source"], len(SOURCES)).float() * b["keep"][:, :, 0].sum(1, keepdim=True)
    mean = (length * b["keep"][..., 0]).sum(1) / b["keep"][..., 0].sum(1).clamp_min(1)
    return total, (one * mean[:, None]).sum(0), one.sum(0), loads


# ---------------------------------------------------------------------------- the stage

def gather(a, model, W, batches, docs, tok, seed, device):
    """The rows of one slice with what the backbone makes of them."""
    store, t0 = Store(model, a.length), time.time()
    chunk = a.rows
    for _ in range(max(1, a.draft_rows // a.rows)):
        store.add(model, W, batches.next(truncated=True), CORPUS, chunk)
    t1 = time.time()
    made = 0
    for rows, source in written_rows(a, model, W, docs, tok, seed, device):
        made += int((rows["classes"] > 0).sum())
        store.add(model, W, rows, source, chunk)
    got = store.close()
    print(f"draft rows {got}, {made} tokens written: {t1 - t0:.0f} s and {time.time() - t1:.0f} s", flush=True)
    return store


def schedule(step, steps, peak, warm=100, tail=0.6):
    left = (steps - step) / (tail * steps)
    return peak * min(1.0, (step + 1) / warm, max(left, 0.01))


def points(a):
    """The steps after which the accepted length is measured."""
    return {a.draft_steps * k // a.draft_points for k in range(1, a.draft_points)} if a.draft_points else set()


def train(a, model, opt, store, heads, device, start, deadline, measure=None):
    """Steps `start` to a.draft_steps; returns the step reached. measure(step) is called a.draft_points times."""
    cuda = device.type == "cuda"
    step_loss = lambda b: loss(model, heads, model.weights(draft=True), b)
    if cuda and not a.no_compile:
        step_loss = torch.compile(step_loss, dynamic=False, mode=None if a.no_graphs else "reduce-overhead")
    names, t0, reserve = model.names(draft=True), time.time(), 0.0
    if measure and a.draft_points and start == 0:
        measure(0)
        reserve = 2 * (time.time() - t0) * a.draft_points
    t1, t2, gen = t0, time.time(), torch.Generator(device=device).manual_seed(a.seed + 77 + start)
    sums, counts, seen, total = 0, 0, 0, 0
    step, due = start - 1, points(a)
    while step + 1 < a.draft_steps:
        step += 1
        if deadline and time.time() > deadline + 5 * a.fit:
            return step
        if cuda:
            torch.compiler.cudagraph_mark_step_begin()
        value, length, count, loads = step_loss(store.draw(a.draft_pieces, a.anchors, gen))
        value.backward()
        lr = schedule(step, a.draft_steps, a.draft_lr)
        opt.step(lr)
        with torch.no_grad():
            load = torch.stack(loads).float()
            model.param("mtp.bias").add_(torch.sign(load.mean(1, keepdim=True) - load), alpha=2e-3 * lr)
            sums, counts, total, seen = sums + length, counts + count, total + value.detach(), seen + 1
        for n in names:
            model.param(n).grad = None
        if cuda and step == start + 10:
            torch.cuda.synchronize()
            t1 = time.time()
            print(f"first draft steps (compilation) {t1 - t2:.0f} s", flush=True)
        if a.fit and deadline and step == start + 210:
            if cuda:
                torch.cuda.synchronize()
            pace = (time.time() - t1) / 200
            a.draft_steps = max(step + 2, min(a.draft_steps, step + int((deadline - reserve - time.time()) / pace)))
            due = points(a)
            print(f"draft steps: {a.draft_steps}, {pace * 1e3:.1f} ms each", flush=True)
        if (step + 1) % (5 * a.log_every) == 0 or step + 1 == a.draft_steps:
            each = (sums / counts.clamp_min(1)).tolist()
            print(f"draft step {step + 1}: loss {total.item() / seen:.4f} expected length "
                  + " ".join(f"{n} {x:.3f}" for n, x in zip(SOURCES, each)) + f" lr {lr:.3f} "
                  f"{time.time() - t0:.0f} s", flush=True)
            sums, counts, seen, total = 0, 0, 0, 0
        if measure and step + 1 in due:
            measure(step + 1)
    return a.draft_steps
