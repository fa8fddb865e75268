"""Text the model writes itself, in large batches: one token a step with cached keys."""
import torch
import torch.nn.functional as F

from data import EOS, PAD
from quant import BF16, q4kv


def longest(c):
    """Tokens up to which every compressed entry is selected, so that no indexer need be run."""
    return min(c.topk, c.cand_blocks * c.cand_size)


class Writer:
    """The caches of n texts of up to `length` tokens that advance together."""

    def __init__(self, model, W, n, length):
        c, dev = model.c, W["embed"].device
        if length > longest(c):
            raise ValueError(f"texts of {length} tokens, the selection keeps all entries of up to {longest(c)}")
        self.model, self.W, self.t = model, W, 0
        self.layers = [model.layer_weights(W, l) for l in range(c.layers)]
        self.window = [torch.zeros(n, length, c.hd, dtype=BF16, device=dev) for _ in range(c.layers)]
        self.entries = {l: torch.zeros(n, length // c.ratios[l], c.hd, dtype=BF16, device=dev) for l in c.kv}
        self.pending = {}

    def step(self, tokens):
        """Logits [n, vocab] behind tokens[:, t]; tokens [n, length] holds at least the tokens up to there."""
        m, c, t, W = self.model, self.model.c, self.t, self.W
        pos = torch.tensor([[t]], device=tokens.device)
        cs = {r: m.angles(pos, m.f_plain if r == 0 else m.f_comp) for r in set(c.ratios)}
        start = max(0, t - c.ngram)
        loc = torch.arange(start, t + 1, device=tokens.device)
        e = F.embedding(tokens[:, t:t + 1], W["embed"])
        h = e[..., None, :].expand(*e.shape[:-1], c.hc, c.dim).contiguous()
        pre = torch.zeros(*e.shape[:-1], c.hc, device=e.device)
        pre[..., 0] = 1
        source = None
        for l, lw in enumerate(self.layers):
            ratio = c.ratios[l]
            if l in c.engram:
                i = c.engram.index(l)
                rows = m.engram_rows(tokens[:, start:t + 1], loc, i)[:, -1:]
                emb = F.embedding(rows, W[f"engram.table{i}"]).flatten(-2)
                h = m.engram(h, emb, *(W[f"engram.{k}"][i] for k in ("wkv", "q", "k")))
            mix, x, _, q, entry = m.pre_attention(h, pre, lw, cs[ratio])
            self.window[l][:, t:t + 1] = entry
            keys = self.window[l][:, max(0, t + 1 - c.window):t + 1]
            if l in c.kv:
                source = l
                self.compress(l, x)
            if ratio:
                keys = torch.cat([keys, self.entries[source][:, :(t + 1) // ratio]], 1)
            h, pre, _ = m.post_attention(attend(q, keys, lw["sink"], c.hd), h, mix, lw, cs[ratio])
        self.t += 1
        return m.logits(W, h, pre)[:, 0].float()

    def compress(self, l, x):
        """Appends the compressed entry that ends at this token, if one does."""
        m, c, W, t = self.model, self.model.c, self.W, self.t
        i, ratio = c.kv.index(l), c.ratios[l]
        if (t + 1) % ratio:
            self.pending[l] = x
            return
        gate = W["kv.c_wgate"][sum(c.ratios[k] == 2 for k in c.kv[:i])] if ratio == 2 else None
        if ratio == 2:
            x = torch.cat([self.pending[l], x], 1)
        lat = m.compress(x, W["kv.c_wkv"][i], W["kv.c_norm"][i], gate)
        cs = m.angles(torch.tensor([[t + 1 - ratio]], device=x.device), m.f_comp)
        self.entries[l][:, t // ratio:t // ratio + 1] = q4kv(m.rope(lat, cs))


def attend(q, keys, sink, hd):
    """FP32 attention of one query over all of keys [n, k, hd]; q [n, 1, heads, hd]."""
    keys = keys.float()
    s = torch.einsum("nthd,nkd->nhtk", q.float(), keys) * hd ** -0.5
    total = torch.logaddexp(torch.logsumexp(s, -1), sink[None, :, None])
    return torch.einsum("nhtk,nkd->nthd", torch.exp(s - total[..., None]), keys).to(BF16)


@torch.no_grad()
def write(model, W, prompts, sizes, temperature, gen):
    """Continues prompts [n, length] from sizes [n] tokens on at temperature [n] (0: the argmax), until all are full;
    what is behind the end token is PAD."""
    tokens, length = prompts.clone(), prompts.shape[1]
    writer = Writer(model, W, len(tokens), length)
    done = torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)
    for t in range(length - 1):
        logits = writer.step(tokens)
        # The largest of logits / T plus Gumbel noise is a sample of the softmax.
        noise = -torch.empty_like(logits).exponential_(generator=gen).log()
        pick = (logits + temperature[:, None] * noise).argmax(-1)
        told = t + 1 >= sizes
        tokens[:, t + 1] = torch.where(told, torch.where(done, PAD, pick), tokens[:, t + 1])
        done |= told & (tokens[:, t + 1] == EOS)
    return tokens
