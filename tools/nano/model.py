"""The architecture in torch: one forward for training and for evaluation.

Rounding points are the format's (model spec 3 and 13): BF16 after every linear, norm, RoPE, collapse and
expand; FP8 inputs of FP8 and FP4 linears; quantized caches. `exact` (evaluation, CPU) accumulates every
product in FP32 and rounds each expert's output; training on a GPU uses BF16 matrix products (FP32
accumulation, same roundings) and sums the experts before rounding.

Parameters of equal shape are stacked over layers. A batch is rows of packed documents, see data.Packer.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

import quant
from kernels import select, sinkhorn
from quant import BF16, F32, q4i, q4kv, q8


class Config:
    def __init__(self, text):
        self.text = text
        g = text.get
        self.vocab, self.dim, self.inter = g("vocab_size"), g("hidden_size"), g("moe_intermediate_size")
        self.layers, self.drafts = g("num_hidden_layers"), g("num_nextn_predict_layers")
        self.heads, self.hd, self.rd = g("num_attention_heads"), g("head_dim"), g("qk_rope_head_dim")
        self.q_rank, self.o_rank, self.o_groups = g("q_lora_rank"), g("o_lora_rank"), g("o_groups")
        self.eps, self.limit = g("rms_norm_eps"), g("swiglu_limit")
        self.experts, self.top, self.scale = (g("n_routed_experts"), g("num_experts_per_tok"),
                                              g("routed_scaling_factor"))
        self.window, self.ratios = g("sliding_window"), g("compress_ratios")
        self.kv, self.ix = g("kv_source_layer_ids"), g("index_source_layer_ids")
        self.i_heads, self.i_dim, self.topk = g("index_n_heads"), g("index_head_dim"), g("index_topk")
        self.cand, self.cand_blocks, self.cand_size = (g("candidate_source_layer_id"),
                                                       g("candidate_topk_blocks"), g("candidate_block_size"))
        self.hc, self.iters, self.hc_eps = g("hc_mult"), g("hc_sinkhorn_iters"), g("hc_eps")
        self.engram, self.rows = g("engram_layer_ids"), g("engram_num_embeddings")
        self.ngram, self.e_heads, self.e_dim = (g("engram_max_ngram_size"), g("engram_n_heads"),
                                                g("engram_head_dim"))
        self.block, self.noise, self.rank = (g("dspark_block_size"), g("dspark_noise_token_id"),
                                             g("dspark_markov_rank"))
        self.taps = g("dspark_target_layer_ids")
        self.d_experts, self.d_top = g("dspark_n_routed_experts"), g("dspark_num_experts_per_tok")
        self.decoder = next((i for i, r in enumerate(self.ratios) if r == 1), self.layers)


# ---------------------------------------------------------------------------- constants

def is_prime(n):
    return n > 1 and all(n % i for i in range(2, math.isqrt(n) + 1))


def engram_constants(text):
    """Primes, row offsets and multipliers of each Engram layer (model spec 4.6)."""
    import numpy as np
    used, primes, offsets, mult = set(), [], [], []
    for layer in text["engram_layer_ids"]:
        flat = []
        for _ in range(text["engram_max_ngram_size"] - 1):
            n, row = text["engram_vocab_size"], []
            while len(row) < text["engram_n_heads"]:
                if n not in used and is_prime(n):
                    used.add(n)
                    row.append(n)
                n += 1
            flat += row
        primes.append(flat)
        offsets.append([sum(flat[:i]) for i in range(len(flat))])
        hi = ((2 ** 63 - 1) // text["engram_compressed_vocab_size"]) // 2
        r = np.random.default_rng(10007 * layer).integers(0, hi, text["engram_max_ngram_size"])
        mult.append((2 * r.astype(np.int64) + 1).tolist())
    return primes, offsets, mult


def rope_freqs(dim, base, scaling=None):
    part = (torch.arange(0, dim, 2, dtype=F32) / dim).double()
    f = 1.0 / torch.pow(torch.tensor(float(base)).double(), part).float()
    if scaling:
        orig = scaling["original_max_position_embeddings"]

        def turn(beta):
            return dim * math.log(orig / (2 * math.pi * beta)) / (2 * math.log(base))
        low, high = max(math.floor(turn(scaling["beta_fast"])), 0), min(math.ceil(turn(scaling["beta_slow"])), dim - 1)
        s = 1 - ((torch.arange(dim // 2, dtype=F32) - low) / max(high - low, 1e-3)).clamp(0, 1)
        f = (f / scaling["factor"]) * (1 - s) + f * s
    return f


# ---------------------------------------------------------------------------- parameters

def block_specs(c, n, experts, name):
    """(name, shape, kind) of a stack of n layers."""
    d, k = c.dim, (2 + c.hc) * c.hc
    out = [("wq_a", (n, c.q_rank, d), "f8"), ("wq_b", (n, c.heads * c.hd, c.q_rank), "f8"),
           ("wkv", (n, c.hd, d), "f8"),
           ("wo_a", (n, c.o_groups * c.o_rank, c.heads * c.hd // c.o_groups), "f8"),
           ("wo_b", (n, d, c.o_groups * c.o_rank), "f8"),
           ("q_norm", (n, c.q_rank), "bf16"), ("kv_norm", (n, c.hd), "bf16"),
           ("attn_norm", (n, d), "bf16"), ("ffn_norm", (n, d), "bf16"), ("sink", (n, c.heads), "f32"),
           ("gate", (n, experts, d), "bf16"), ("bias", (n, experts), "f32"),
           ("w1", (n, experts, c.inter, d), "f4"), ("w3", (n, experts, c.inter, d), "f4"),
           ("w2", (n, experts, d, c.inter), "f4"),
           ("s1", (n, c.inter, d), "f8"), ("s3", (n, c.inter, d), "f8"), ("s2", (n, d, c.inter), "f8")]
    for p in ("attn", "ffn"):
        out += [(f"hc_{p}_fn", (n, k, c.hc * d), "f32"), (f"hc_{p}_base", (n, k), "f32"),
                (f"hc_{p}_scale", (n, 3), "f32")]
    return [(f"{name}.{a}", b, q) for a, b, q in out]


def backbone_specs(c):
    nk, n2 = len(c.kv), sum(c.ratios[i] == 2 for i in c.kv)
    cols = (c.ngram - 1) * c.e_heads
    out = [("embed", (c.vocab, c.dim), "bf16"), ("head", (c.vocab, c.dim), "bf16"), ("norm", (c.dim,), "bf16")]
    out += block_specs(c, c.layers, c.experts, "layers")
    out += [("kv.c_wkv", (nk, c.hd, c.dim), "bf16"), ("kv.c_norm", (nk, c.hd), "bf16"),
            ("kv.i_wk", (nk, c.i_dim, c.hd), "bf16"), ("kv.i_knorm", (nk, c.i_dim), "bf16"),
            ("kv.c_wgate", (n2, c.hd, c.dim), "bf16"),
            ("ix.i_wq", (len(c.ix), c.i_heads * c.i_dim, c.q_rank), "f8"),
            ("ix.i_wp", (len(c.ix), c.i_heads, c.dim), "bf16")]
    for i, rows in enumerate(c.rows):
        out.append((f"engram.table{i}", (rows, c.e_dim), "row"))
    out += [("engram.wkv", (len(c.engram), (c.hc + 1) * c.dim, cols * c.e_dim), "f8"),
            ("engram.q", (len(c.engram), c.hc, c.dim), "bf16"), ("engram.k", (len(c.engram), c.hc, c.dim), "bf16")]
    return out


def draft_specs(c):
    return block_specs(c, c.drafts, c.d_experts, "mtp") + [
        ("draft.main_proj", (c.dim, len(c.taps) * c.dim), "f8"), ("draft.main_norm", (c.dim,), "bf16"),
        ("draft.norm", (c.dim,), "bf16"), ("draft.mk_embed", (c.vocab, c.rank), "bf16"),
        ("draft.mk_head", (c.vocab, c.rank), "bf16"), ("draft.conf", (1, c.dim + c.rank), "bf16")]


def initial(name, shape, kind, c, gen):
    """Starting values. Hyper-connections start near the identity with streams told apart by their biases."""
    key = name.split(".")[-1]
    if "norm" in key or key in ("q", "k") and name.startswith("engram"):
        return torch.ones(shape)
    if key in ("bias", "sink"):
        return torch.zeros(shape)
    if key.endswith("_scale"):
        return torch.full(shape, 0.2)
    if key.endswith("_base"):
        n, h = shape[0], c.hc
        out = torch.zeros(shape)
        out[:, :h] = -1.1 + 0.8 * torch.randn(n, h, generator=gen)
        out[:, h:2 * h] = 0.8 * torch.randn(n, h, generator=gen)
        out[:, 2 * h:] = (4.0 * torch.eye(h)).flatten()
        return out
    std = {"embed": 0.7, "head": 0.02, "mk_embed": 0.3, "mk_head": 0.02, "conf": 0.02}.get(
        key, 0.5 if kind == "row" else shape[-1] ** -0.5)
    if key in ("wo_b", "w2", "s2"):
        std *= 0.5
    return std * torch.randn(shape, generator=gen)


class Nano(nn.Module):
    def __init__(self, text, token_map, seed=1, exact=False):
        super().__init__()
        self.c = c = Config(text)
        self.exact, self.flex = exact, None
        gen = torch.Generator().manual_seed(seed)
        self.kinds, self.p = {}, nn.ParameterDict()
        for name, shape, kind in backbone_specs(c) + (draft_specs(c) if c.drafts else []):
            self.kinds[name] = kind
            self.p[name.replace(".", "/")] = nn.Parameter(initial(name, shape, kind, c, gen),
                                                          requires_grad=not name.endswith(".bias"))
        for k in ("plain", "comp"):
            f = rope_freqs(c.rd, *((text["rope_theta"],) if k == "plain" else
                                   (text["compress_rope_theta"], text["rope_scaling"])))
            self.register_buffer("f_" + k, f, persistent=False)
        self.register_buffer("token_map", torch.as_tensor(token_map).long(), persistent=False)
        P, O, M = engram_constants(text)
        self.register_buffer("e_primes", torch.tensor(P), persistent=False)
        self.register_buffer("e_offsets", torch.tensor(O), persistent=False)
        self.e_mult = M

    def names(self, draft=False):
        return [n for n in self.kinds if n.startswith(("mtp.", "draft.")) == draft]

    def param(self, name):
        return self.p[name.replace(".", "/")]

    def weights(self, draft=False):
        """What the engine computes with: {name: tensor}; stacks of layers as tuples."""
        out = {}
        for n in self.names(draft):
            w = quant.FAKE[self.kinds[n]](self.param(n))
            stack = n.split(".")[0] in ("layers", "mtp", "kv", "ix") or n in ("engram.wkv", "engram.q", "engram.k")
            out[n] = w.unbind(0) if stack else w
        return out

    # ------------------------------------------------------------------ primitives

    def mm(self, x, w):
        """BF16 linear: FP32 accumulation, BF16 result."""
        if self.exact or not x.is_cuda:
            return F.linear(x.float(), w.float()).to(BF16)
        return F.linear(x, w)

    @staticmethod
    def mm32(x, w):
        return F.linear(x.float(), w.float())

    def norm(self, x, w):
        f = x.float()
        return (f * torch.rsqrt(f.square().mean(-1, keepdim=True) + self.c.eps) * w.float()).to(BF16)

    def rope(self, x, cs, inverse=False):
        """x [B, T, .., D]; cs = cos, sin [B, T, rd/2]."""
        cos, sin = cs
        if inverse:
            sin = -sin
        shape = cos.shape[:2] + (1,) * (x.dim() - 3) + cos.shape[2:]
        cos, sin = cos.view(shape), sin.view(shape)
        keep, t = x[..., :-self.c.rd], x[..., -self.c.rd:].float()
        a, b = t[..., 0::2], t[..., 1::2]
        r = torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(BF16)
        return torch.cat([keep, r], -1)

    @staticmethod
    def angles(pos, f):
        a = pos.float()[..., None] * f
        return a.cos(), a.sin()

    # ------------------------------------------------------------------ hyper-connections

    def mix(self, h, fn, scale, base):
        hc, eps = self.c.hc, self.c.hc_eps
        X = h.flatten(-2).float()
        m = F.linear(X, fn) * torch.rsqrt(X.square().mean(-1, keepdim=True) + 1e-20)
        pre = torch.sigmoid(m[..., :hc] * scale[0] + base[:hc]) + eps
        post = 2 * torch.sigmoid(m[..., hc:2 * hc] * scale[1] + base[hc:2 * hc])
        C = (m[..., 2 * hc:] * scale[2] + base[2 * hc:]).unflatten(-1, (hc, hc))
        return pre, post, sinkhorn(C.softmax(-1) + eps, self.c.iters, eps)

    def collapse(self, h, pre):
        a = pre[..., 0, None] * h[..., 0, :].float()
        for j in range(1, self.c.hc):
            a = a + pre[..., j, None] * h[..., j, :].float()
        return a.to(BF16)

    def expand(self, y, h, post, C):
        out, y, s = [], y.float(), [h[..., j, :].float() for j in range(self.c.hc)]
        for k in range(self.c.hc):
            a = C[..., 0, k, None] * s[0]
            for j in range(1, self.c.hc):
                a = a + C[..., j, k, None] * s[j]
            out.append((post[..., k, None] * y + a).to(BF16))
        return torch.stack(out, -2)

    # ------------------------------------------------------------------ Engram

    def engram_rows(self, tokens, loc, i):
        """Table rows [B, T, columns]; loc = index in the document."""
        c, m = self.c, self.e_mult[i]
        ids = self.token_map[tokens]
        pad = self.token_map[c.text["engram_pad_token_id"]]
        R, out = ids * m[0], []
        for k in range(1, c.ngram):
            prev = torch.where(loc >= k, torch.roll(ids, k, 1), pad)
            R = R ^ (prev * m[k])
            for a in range(c.e_heads):
                col = c.e_heads * (k - 1) + a
                out.append(R % self.e_primes[i, col] + self.e_offsets[i, col])
        return torch.stack(out, -1)

    def engram(self, h, e, wkv, qw, kw):
        """h [B, T, hc, d], e [B, T, columns*dim] the looked-up rows."""
        c = self.c
        kv = self.mm(q8(e), wkv).unflatten(-1, (c.hc + 1, c.dim)).float()
        key, val, hf = kv[..., :c.hc, :], kv[..., c.hc, :], h.float()
        d = (hf * (qw.float() * kw.float()) * key).sum(-1)
        d = d * torch.rsqrt(hf.square().mean(-1) + 1e-20) * torch.rsqrt(key.square().mean(-1) + 1e-20)
        d = d * c.dim ** -0.5
        gate = torch.sigmoid(torch.copysign(d.abs().clamp_min(1e-6).sqrt(), d))
        return (hf + gate[..., None] * val[..., None, :]).to(BF16)

    # ------------------------------------------------------------------ attention

    def pre_attention(self, h, pre, lw, cs):
        """Mix, collapse, norm, query and window entry of one layer."""
        m = self.mix(h, lw["hc_attn_fn"], lw["hc_attn_scale"], lw["hc_attn_base"])
        x = self.norm(self.collapse(h, pre), lw["attn_norm"])
        xq = q8(x)
        qr = self.norm(self.mm(xq, lw["wq_a"]), lw["q_norm"])
        qrq = q8(qr)
        q = self.rope(self.mm(qrq, lw["wq_b"]).unflatten(-1, (self.c.heads, self.c.hd)), cs)
        return m, x, qrq, q, self.window_entry(xq, lw, cs)

    def window_entry(self, xq, lw, cs):
        return q8(self.rope(self.norm(self.mm(xq, lw["wkv"]), lw["kv_norm"]), cs))

    def compress(self, x, wkv, norm, wgate):
        """Latents [B, T/ratio, hd], not rotated."""
        if wgate is None:
            return self.norm(self.mm(x, wkv), norm)
        return self.norm(self.pool(*(self.mm32(x, w).unflatten(1, (-1, 2)) for w in (wkv, wgate))), norm)

    def pool(self, k, g):
        """The pairs of k [B, T/2, 2, d] by the softmax of g."""
        return (k * g.softmax(2)).sum(2).to(BF16)

    def index_inputs(self, x, qrq, lat, xw, cs, cs_c):
        """Index queries [B, T, h, d], head weights [B, T, h] and (for a KV source) keys [B, Tc, d]."""
        c = self.c
        q = q4i(self.rope(self.mm(qrq, xw["i_wq"]).unflatten(-1, (c.i_heads, c.i_dim)), cs))
        w = (self.mm(x, xw["i_wp"]).float() * (c.i_dim ** -0.5 * c.i_heads ** -0.5)).to(BF16)
        if lat is None:
            return q, w, None
        return q, w, q4i(self.rope(self.norm(self.mm(lat, xw["i_wk"]), xw["i_knorm"]), cs_c))

    def index_scores(self, q, w, k):
        """BF16 scores [B, T, Tc], as the engine rounds them."""
        if self.exact or not q.is_cuda:
            s = torch.einsum("bthd,bcd->bthc", q.float(), k.float()).to(BF16)
        else:
            s = torch.einsum("bthd,bcd->bthc", q, k)
        return (s.relu() * w[..., None]).float().sum(2).to(BF16)

    def candidates(self, s, visible):
        """Mask of the candidate blocks' entries. Blocks are aligned in the row (for one document that is
        the format's alignment)."""
        c = self.c
        n = s.shape[-1]
        pad = -n % c.cand_size
        sb = F.pad(s.float().masked_fill(~visible, float("-inf")), (0, pad), value=float("-inf"))
        sb = sb.unflatten(-1, (-1, c.cand_size)).amax(-1)
        vb = F.pad(visible, (0, pad)).unflatten(-1, (-1, c.cand_size)).any(-1)
        # The block of the newest entry always counts.
        last = vb & ~F.pad(vb, (0, 1))[..., 1:]
        sb = torch.where(last, 3e38, sb.clamp_min(-3e38))
        if not self.exact:                           # the bisection of the kernel wants a bounded range
            top = torch.where(vb & ~last, sb, -3e38).amax(-1, keepdim=True)
            sb = torch.where(last, top + 1, sb)
        return select(sb, vb, c.cand_blocks).repeat_interleave(c.cand_size, -1)[..., :n]

    def attend_dense(self, q, kwin, kc, sink, wmask, sel):
        """FP32 attention with materialised scores; q [B, T, H, D]."""
        K, mask = kwin, wmask
        if kc is not None:
            K, mask = torch.cat([kwin, kc], 1), torch.cat([wmask, sel], 2)
        s = torch.einsum("bthd,bkd->bhtk", q.float(), K.float()) * self.c.hd ** -0.5
        s = s.masked_fill(~mask[:, None], float("-inf"))
        lse = torch.logsumexp(s, -1)
        total = torch.logaddexp(lse, sink[None, :, None])
        o = torch.einsum("bhtk,bkd->bthd", torch.exp(s - total[..., None]), K.float())
        return o.to(BF16), total

    def attend_flex(self, q, kwin, kc, sink, block_mask):
        from torch.nn.attention.flex_attention import AuxRequest, flex_attention
        K = (kwin if kc is None else torch.cat([kwin, kc], 1))[:, None]
        o, aux = flex_attention(q.transpose(1, 2), K, K, block_mask=block_mask, scale=self.c.hd ** -0.5,
                                enable_gqa=True, return_aux=AuxRequest(lse=True))
        total = torch.logaddexp(aux.lse.float(), sink[None, :, None])
        o = o.float() * torch.exp(aux.lse.float() - total)[..., None]
        return o.to(BF16).transpose(1, 2), total

    def post_attention(self, o, h, m, lw, cs):
        """Output projection, expand, and the whole MoE half of the layer."""
        c = self.c
        _, post, C = m
        o = self.rope(o, cs, inverse=True).unflatten(-2, (c.o_groups, -1)).flatten(-2)
        wa = lw["wo_a"].unflatten(0, (c.o_groups, -1))
        if self.exact or not o.is_cuda:
            z = torch.stack([self.mm(o[..., g, :], wa[g]) for g in range(c.o_groups)], -2)
        else:
            z = torch.einsum("btgi,gri->btgr", o, wa)
        h = self.expand(self.mm(q8(z.flatten(-2)), lw["wo_b"]), h, post, C)
        fpre, fpost, fC = self.mix(h, lw["hc_ffn_fn"], lw["hc_ffn_scale"], lw["hc_ffn_base"])
        y, load = self.moe(self.norm(self.collapse(h, m[0]), lw["ffn_norm"]), lw)
        return self.expand(y, h, fpost, fC), fpre, load

    # ------------------------------------------------------------------ MoE

    def route(self, x, lw, top):
        """Weights of all experts, zero where not chosen, and the choice."""
        a = F.softplus(self.mm32(x, lw["gate"]), threshold=20).sqrt()
        s = (a + lw["bias"]).detach()
        lower = torch.arange(s.shape[-1], device=x.device)
        better = (s[..., None, :] > s[..., :, None]) | ((s[..., None, :] == s[..., :, None])
                                                       & (lower[None, :] < lower[:, None]))
        chosen = better.sum(-1) < top
        w = a * chosen
        w = w / (w.sum(-1, keepdim=True) + 1e-20) if top > 1 else w
        return w * self.c.scale, chosen

    @staticmethod
    def silu(x):
        return F.silu(x)

    def moe(self, x, lw):
        c, experts = self.c, lw["gate"].shape[0]
        top = c.top if experts == c.experts and "main" not in lw else c.d_top
        w, chosen = self.route(x, lw, top)
        xq = q8(x)
        if self.exact:
            return self.moe_exact(xq, w, lw), chosen.flatten(0, -2).sum(0)
        w1, w3 = (torch.cat([lw[k].flatten(0, 1), lw[s]], 0) for k, s in (("w1", "s1"), ("w3", "s3")))
        g, u = self.mm(xq, w1).float().clamp_max(c.limit), self.mm(xq, w3).float().clamp(-c.limit, c.limit)
        full = torch.cat([w, torch.ones_like(w[..., :1])], -1)[..., None]
        v = (full * (self.silu(g) * u).unflatten(-1, (experts + 1, c.inter))).flatten(-2).to(BF16)
        w2 = torch.cat([lw["w2"].transpose(0, 1).flatten(1, 2), lw["s2"]], 1)
        return self.mm(q8(v), w2), chosen.flatten(0, -2).sum(0)

    def moe_exact(self, xq, w, lw):
        c, n = self.c, lw["gate"].shape[0]
        y = torch.zeros(xq.shape, dtype=F32, device=xq.device)
        for e in range(n + 1):
            w1, w2, w3 = ((lw["w1"][e], lw["w2"][e], lw["w3"][e]) if e < n else (lw["s1"], lw["s2"], lw["s3"]))
            hit = (w[..., e] > 0) if e < n else torch.ones(xq.shape[:-1], dtype=torch.bool, device=xq.device)
            x = xq[hit]
            if not len(x):
                continue
            g, u = self.mm(x, w1).float().clamp_max(c.limit), self.mm(x, w3).float().clamp(-c.limit, c.limit)
            v = self.silu(g) * u
            if e < n:
                v = v * w[hit][:, e, None]
            y[hit] = y[hit] + self.mm(q8(v.to(BF16)), w2).float()
        return y.to(BF16)

    # ------------------------------------------------------------------ the backbone

    def layer_weights(self, W, i, stack="layers"):
        skip = len(stack) + 1
        return {k[skip:]: v[i] for k, v in W.items() if k.startswith(stack + ".")}

    def prepare(self, batch):
        """Per-row geometry from tokens, pos, first, seg [B, T]."""
        B, T = batch["tokens"].shape
        dev = batch["tokens"].device
        first, pos = batch["first"].bool(), batch["pos"].long()
        row = torch.arange(T, device=dev)
        start = torch.where(first, row, 0).cummax(1).values
        doc = first.long().cumsum(1)
        g = dict(doc=doc, pos=pos, loc=row - start, seg=batch["seg"].long(), row=row)
        g["cs"] = {0: self.angles(pos, self.f_plain), 1: self.angles(pos, self.f_comp)}
        g["cs"][2] = g["cs"][1]
        g["cs_c"] = {r: tuple(t[:, ::r] for t in g["cs"][r]) for r in (1, 2)}
        g["visible"] = {r: (doc[:, :, None] == doc[:, None, ::r])
                        & (row[None, ::r] + r - 1 <= row[:, None])[None] for r in set(self.c.ratios) if r}
        return g

    def window_mod(self, g, decoder):
        """Flex mask over window keys; the decoder's windows start at seg for queries behind it."""
        doc, pos, seg, W = g["doc"].int(), g["pos"].int(), g["seg"].int(), self.c.window

        def mod(b, h, q, k):
            d = pos[b, q] - pos[b, k]
            ok = (doc[b, q] == doc[b, k]) & (d >= 0) & (d < W)
            if decoder:
                ok = ok & ((pos[b, q] < seg[b, q]) | (pos[b, k] >= seg[b, q]))
            return ok
        return mod

    def window_mask(self, g, decoder):
        i = torch.arange(g["doc"].shape[1], device=g["doc"].device)
        b = torch.arange(g["doc"].shape[0], device=g["doc"].device)
        return self.window_mod(g, decoder)(b[:, None, None], 0, i[None, :, None], i[None, None, :])

    def flex_mask(self, g, decoder, sel):
        """Block mask of window keys and (sel given) compressed entries behind them."""
        from torch.nn.attention.flex_attention import BlockMask
        B, T = g["doc"].shape
        win, n = self.window_mod(g, decoder), T // 128
        i = torch.arange(n, device=g["doc"].device)
        band = ((i[:, None] - i[None, :]) >= 0) & ((i[:, None] - i[None, :]) <= 1)
        blocks, Tk = band[None].expand(B, n, n), T
        if sel is not None:
            Tc = sel.shape[-1]
            any_ = sel.view(B, n, 128, Tc // 128, 128).any(4).any(2)
            blocks, Tk = torch.cat([blocks, any_], 2), T + Tc

            def mod(b, h, q, k):
                inside = k < T
                kw = torch.where(inside, k, 0)
                kc = torch.where(inside, 0, k - T)
                return torch.where(inside, win(b, h, q, kw), sel[b, q, kc])
        else:
            mod = win
        num = blocks.sum(-1, dtype=torch.int32)[:, None]
        order = torch.argsort(blocks.int(), dim=-1, descending=True, stable=True).int()[:, None]
        return BlockMask.from_kv_blocks(num, order, BLOCK_SIZE=(128, 128), mask_mod=mod, seq_lengths=(T, Tk))

    def forward(self, W, batch, topk=None, sample=None, capture=None):
        """Streams through all layers. topk None: the configured number; sample: row indices at which the
        indexer is trained. Returns dict with h, pre, taps, index loss, loads [L, E], selection sizes."""
        c = self.c
        topk = c.topk if topk is None else topk
        g = self.prepare(batch)
        e = F.embedding(batch["tokens"], W["embed"])
        h = e[..., None, :].expand(*e.shape[:-1], c.hc, c.dim).contiguous()
        pre = torch.zeros(*e.shape[:-1], c.hc, device=e.device)
        pre[..., 0] = 1
        out = dict(taps=[], loads=[], index_loss=e.new_zeros((), dtype=F32), geometry=g)
        st = dict(kc=None, ik=None, sel=None, cand=None, group=None, masks={})
        for l in range(c.layers):
            lw, ratio = self.layer_weights(W, l), c.ratios[l]
            if l in c.engram:
                i = c.engram.index(l)
                rows = self.engram_rows(batch["tokens"], g["loc"], i)
                if capture is not None:
                    capture[f"rows.{l}"] = rows
                emb = F.embedding(rows, W[f"engram.table{i}"]).flatten(-2)
                h = self.engram(h, emb, *(W[f"engram.{k}"][i] for k in ("wkv", "q", "k")))
            if l in c.taps:
                out["taps"].append((h.float().sum(-2) / c.hc).to(BF16))
            m, x, qrq, q, kwin = self.pre_attention(h, pre, lw, g["cs"][ratio])
            if ratio:
                self.global_branch(W, g, st, l, x, qrq, topk, out, sample)
                if capture is not None and l in c.ix:
                    capture[f"sel.{l}"] = st["sel"]
            o, total = self.attend(g, st, l, q, kwin, lw["sink"])
            if ratio and sample is not None:
                self.observe(st, q, total, sample)
            h, pre, load = self.post_attention(o, h, m, lw, g["cs"][ratio])
            out["loads"].append(load)
            if capture is not None:
                capture[f"hidden.{l}"], capture[f"pre_mix.{l}"] = h, pre
        self.close_group(st, out)
        out["h"], out["pre"] = h, pre
        return out

    def global_branch(self, W, g, st, l, x, qrq, topk, out, sample):
        """Compressed entries and selection of a layer, where it is a source."""
        c, ratio = self.c, self.c.ratios[l]
        lat = None
        if l in c.kv:
            i = c.kv.index(l)
            gate = W["kv.c_wgate"][sum(c.ratios[k] == 2 for k in c.kv[:i])] if ratio == 2 else None
            lat = self.compress(x, W["kv.c_wkv"][i], W["kv.c_norm"][i], gate)
            st["kc"] = q4kv(self.rope(lat, g["cs_c"][ratio]))
            st["kv"] = i
        if l not in c.ix:
            return
        self.close_group(st, out)
        i = c.ix.index(l)
        xw = dict(i_wq=W["ix.i_wq"][i], i_wp=W["ix.i_wp"][i], i_wk=W["kv.i_wk"][st["kv"]],
                  i_knorm=W["kv.i_knorm"][st["kv"]])
        # The indexer learns from its own loss only.
        q, w, k = self.index_inputs(x.detach(), qrq.detach(), None if lat is None else lat.detach(), xw,
                                    g["cs"][ratio], g["cs_c"][ratio])
        if k is not None:
            st["ik"] = k
        visible = g["visible"][ratio]
        with torch.no_grad():
            s = self.index_scores(q, w, st["ik"])
            eligible = visible if l <= c.cand or st["cand"] is None else visible & st["cand"]
            st["sel"] = select(s, eligible, topk)
            if l == c.cand:
                st["cand"] = self.candidates(s, visible)
        st["masks"] = {}
        if sample is not None:
            logits = torch.einsum("bshd,bcd->bshc", q[:, sample].float(), st["ik"].float()).relu()
            logits = (logits * w[:, sample].float()[..., None]).sum(2)
            st["group"] = dict(logits=logits, visible=visible[:, sample], p=0)

    def observe(self, st, q, total, sample):
        """Adds a layer's attention over compressed entries to the indexer's target."""
        grp = st["group"]
        with torch.no_grad():
            qs, kc = q[:, sample], st["kc"]
            qs, kc = (qs, kc) if q.is_cuda else (qs.float(), kc.float())
            s = torch.einsum("bshd,bcd->bshc", qs, kc).float() * self.c.hd ** -0.5
            p = torch.exp(s - total.transpose(1, 2)[:, sample][..., None]).clamp_max(1).sum(2)
            grp["p"] = grp["p"] + p * grp["visible"]

    def close_group(self, st, out):
        grp, st["group"] = st["group"], None
        if grp is None:
            return
        p = grp["p"] / (grp["p"].sum(-1, keepdim=True) + 1e-9)
        logp = grp["logits"].masked_fill(~grp["visible"], -1e4).log_softmax(-1)
        kl = (p * ((p + 1e-9).log() - logp)).sum(-1)
        out["index_loss"] = out["index_loss"] + kl.mean()

    def attend(self, g, st, l, q, kwin, sink):
        ratio, decoder = self.c.ratios[l], l >= self.c.decoder
        kc, sel = (st["kc"], st["sel"]) if ratio else (None, None)
        cache = st["masks"] if ratio else g
        key = ("flex" if self.flex else "dense", decoder)
        if key not in cache:
            cache[key] = self.flex_mask(g, decoder, sel) if self.flex else self.window_mask(g, decoder)
        if self.flex:
            return self.flex(q, kwin, kc, sink, cache[key])
        return self.attend_dense(q, kwin, kc, sink, cache[key], sel)

    def logits(self, W, h, pre):
        x = self.norm(self.collapse(h, pre), W["norm"])
        return self.mm32(x, W["head"]) if self.exact else self.mm(x, W["head"])

    # ------------------------------------------------------------------ the drafter

    def main_x(self, D, taps):
        return self.norm(self.mm(q8(torch.cat(taps, -1)), D["draft.main_proj"]), D["draft.main_norm"])

    def draft_windows(self, D, main, cs):
        """Window entries [B, T, hd] of each draft block, from the target's taps."""
        xq = q8(main)
        return [self.window_entry(xq, self.layer_weights(D, m, "mtp"), cs) for m in range(self.c.drafts)]

    def draft_block(self, lw, h, pre, kwin, mask, cs):
        """One draft block on rows [N, Q]; kwin [N, K, hd]; mask [N, Q, K + Q] over kwin and the rows' own keys."""
        m, _, _, q, own = self.pre_attention(h, pre, lw, cs)
        K = torch.cat([kwin, own], 1)
        wide = self.exact or not q.is_cuda
        s = torch.einsum("nthd,nkd->nhtk", q.float() if wide else q, K.float() if wide else K)
        s = (s.float() * self.c.hd ** -0.5).masked_fill(~mask[:, None], float("-inf"))
        total = torch.logaddexp(torch.logsumexp(s, -1), lw["sink"][None, :, None])
        p = torch.exp(s - total[..., None])
        o = torch.einsum("nhtk,nkd->nthd", p if wide else p.to(BF16), K.float() if wide else K)
        return self.post_attention(o.to(BF16), h, m, dict(lw, main=True), cs)

    def draft(self, W, D, windows, wmask, anchor, pos):
        """Hidden rows z [N, A, block, d] and base logits of A blocks that share window entries. windows: per draft
        block [N, K, hd]; wmask [N, A, K] what each block reads of them; anchor [N, A] the tokens at pos [N, A],
        each one behind its last window entry."""
        c = self.c
        N, A = anchor.shape
        ids = F.pad(anchor[..., None], (0, c.block - 1), value=c.noise).flatten(1)
        e = F.embedding(ids, W["embed"])
        h = e[..., None, :].expand(*e.shape[:-1], c.hc, c.dim).contiguous()
        pre = torch.zeros(*e.shape[:-1], c.hc, device=e.device)
        pre[..., 0] = 1
        at = torch.arange(A * c.block, device=pos.device)
        own = (at[:, None] // c.block == at[None, :] // c.block)[None].expand(N, -1, -1)
        mask = torch.cat([wmask.repeat_interleave(c.block, 1), own], 2)
        cs = self.angles(pos.repeat_interleave(c.block, 1) + at % c.block, self.f_plain)
        loads = []
        for m in range(c.drafts):
            h, pre, load = self.draft_block(self.layer_weights(D, m, "mtp"), h, pre, windows[m], mask, cs)
            loads.append(load)
        z = self.collapse(h, pre)
        x = self.norm(z, D["draft.norm"])
        base = self.mm32(x, W["head"]) if self.exact else self.mm(x, W["head"])
        return z.unflatten(1, (A, c.block)), base.unflatten(1, (A, c.block)), loads

    def draft_heads(self, D, z, base, prev):
        """Logits and confidence logits given the token before each draft, prev [.., block]."""
        e = F.embedding(prev, D["draft.mk_embed"])
        bias = self.mm32(e, D["draft.mk_head"]) if self.exact else self.mm(e, D["draft.mk_head"])
        conf = self.mm32(torch.cat([z, e], -1), D["draft.conf"])[..., 0]
        return base.float() + bias.float(), conf
