"""The evaluation path in the engine's own order of operations (CPU): its 16-lane sums, its exp and log
polynomials, its order within softmax, routing and attention. Logits equal the engine's bit for bit, with rare
exceptions, so a difference is a difference in the model, not in rounding. Plain FP32 elementwise operations throughout: torch
neither fuses nor reorders those."""
import torch
import torch.nn.functional as F

from model import Nano
from quant import BF16, F32, q8

LANES, ROWS = 16, 32


# ---------------------------------------------------------------------------- functions

def exp(x):
    """src/base/mathf.h di_expf, for results below 2^128."""
    shift = 12582912.0
    n = (x * float.fromhex("0x1.715476p0") + shift) - shift
    r = (x - n * float.fromhex("0x1.62e400p-1")) - n * float.fromhex("0x1.7f7d1cp-20")
    p = torch.full_like(x, 1.9875691500e-4)
    for c in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        p = p * r + c
    y = (p * (r * r) + r) + 1.0
    scale = ((n.clamp(-126, 127).to(torch.int32) + 127) << 23).view(F32)
    return torch.where(x > -87.33, y * scale, 0.0)


def log(x):
    """di_logf of positive normal numbers."""
    u = x.contiguous().view(torch.int32)
    half = ((u & 0x7FFFFF) | 0x3F000000).view(F32)
    below = half < float.fromhex("0x1.6a09e6p-1")
    e = ((u >> 23) - 126 - below.int()).float()
    m = torch.where(below, half + half, half) - 1.0
    z, p = m * m, torch.full_like(m, 7.0376836292e-2)
    for c in (-1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
              2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1):
        p = p * m + c
    y = (p * m * z + e * -2.12194440e-4) - 0.5 * z
    return (m + y) + e * 0.693359375


def softplus(x):
    t = exp(x.clamp_max(20.0))
    u = 1.0 + t
    small = torch.where(u == 1.0, t, log(u) * (t / torch.where(u == 1.0, 1.0, u - 1.0)))
    return torch.where(x > 20.0, x, small)


def sigmoid(x):
    return 1.0 / (1.0 + exp(-x))


def rsqrt(x):
    return 1.0 / x.sqrt()


def lanes(x):
    """x [.., n] as [n / 16, .., 16], zeros behind the end."""
    return F.pad(x.float(), (0, -x.shape[-1] % LANES)).unflatten(-1, (-1, LANES)).movedim(-2, 0)


def tree(acc):
    """Sum of the 16 lanes."""
    step = LANES // 2
    while step:
        acc = acc[..., :step] + acc[..., step:2 * step]
        step //= 2
    return acc[..., 0]


def total(x):
    acc = 0.0
    for part in lanes(x):
        acc = acc + part
    return tree(acc)


def dot(a, b):
    """Sum over the last axis of a * b (broadcast), without the products of all in memory."""
    acc = 0.0
    for p, q in zip(lanes(a), lanes(b)):
        acc = acc + p * q
    return tree(acc)


def in_order(x):
    """Sum over the last axis, one after the other."""
    acc = x[..., 0]
    for i in range(1, x.shape[-1]):
        acc = acc + x[..., i]
    return acc


def linear(x, w):
    """x [.., k] times w [n, k] transposed."""
    # The lanes lead, so that the inner axis is the long one.
    a, b, out = lanes(x.reshape(-1, x.shape[-1])), lanes(w).transpose(1, 2).contiguous(), []
    for first in range(0, a.shape[1], ROWS):
        acc = 0.0
        for p, q in zip(a[:, first:first + ROWS].transpose(1, 2), b):
            acc = acc + p[..., None] * q[:, None]
        out.append(tree(acc.movedim(0, -1)))
    return torch.cat(out).view(*x.shape[:-1], w.shape[0])


# ---------------------------------------------------------------------------- the model

class EngineNano(Nano):
    def mm(self, x, w):
        return linear(x, w).to(BF16)

    @staticmethod
    def mm32(x, w):
        return linear(x, w)

    def norm(self, x, w):
        f = x.float()
        rs = rsqrt(total(f * f) / f.shape[-1] + self.c.eps)
        return (f * rs[..., None] * w.float()).to(BF16)

    @staticmethod
    def angles(pos, f):
        a = (pos.float()[..., None] * f).double()
        return a.cos().float(), a.sin().float()

    def mix(self, h, fn, scale, base):
        hc, eps = self.c.hc, self.c.hc_eps
        x = h.flatten(-2).float()
        m = linear(x, fn) * rsqrt(total(x * x) / x.shape[-1] + self.c.eps)[..., None]
        pre = sigmoid(m[..., :hc] * scale[0] + base[:hc]) + eps
        post = 2.0 * sigmoid(m[..., hc:2 * hc] * scale[1] + base[hc:2 * hc])
        C = (m[..., 2 * hc:] * scale[2] + base[2 * hc:]).unflatten(-1, (hc, hc))
        C = exp(C - C.amax(-1, keepdim=True))
        C = C / in_order(C)[..., None] + eps
        for i in range(self.c.iters):
            if i:
                C = C / (in_order(C)[..., None] + eps)
            C = C / (in_order(C.transpose(-1, -2))[..., None, :] + eps)
        return pre, post, C

    def engram(self, h, e, wkv, qw, kw):
        c = self.c
        kv = self.mm(q8(e), wkv).unflatten(-1, (c.hc + 1, c.dim)).float()
        key, val, hf = kv[..., :c.hc, :], kv[..., c.hc, :], h.float()
        rh = rsqrt(total(hf * hf) / c.dim + c.eps)
        rk = rsqrt(total(key * key) / c.dim + c.eps)
        d = total(hf * (qw.float() * kw.float()) * key) * rh * rk * c.dim ** -0.5
        gate = sigmoid(torch.copysign(d.abs().clamp_min(1e-6).sqrt(), d))
        return (hf + gate[..., None] * val[..., None, :]).to(BF16)

    def pool(self, k, g):
        """The pairs of k [B, T/2, 2, d] by the softmax of g."""
        e = exp(g - g.amax(2, keepdim=True))
        p = e / (e[:, :, :1] + e[:, :, 1:])
        return (k[:, :, 0] * p[:, :, 0] + k[:, :, 1] * p[:, :, 1]).to(BF16)

    def index_scores(self, q, w, k):
        rows = []
        for qs, ws in zip(q.float().split(ROWS, 1), w.split(ROWS, 1)):
            s = dot(qs[:, :, :, None], k[:, None, None].float()).to(BF16)
            s = (s.relu() * ws[..., None]).float()
            rows.append(in_order(s.movedim(2, -1)).to(BF16))
        return torch.cat(rows, 1)

    def attend_dense(self, q, kwin, kc, sink, wmask, sel):
        """Each row's keys in the order the engine gathers them: window, then selected entries."""
        K, mask = kwin.float(), wmask
        if kc is not None:
            K, mask = torch.cat([K, kc.float()], 1), torch.cat([wmask, sel], 2)
        n = int(mask.sum(-1).max())
        rank = mask.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[..., :n]
        ok = mask.gather(-1, rank)
        out = [torch.cat([self.attend_rows(q[b, t:t + ROWS].float(), K[b], rank[b, t:t + ROWS], ok[b, t:t + ROWS],
                                           sink) for t in range(0, q.shape[1], ROWS)]) for b in range(q.shape[0])]
        return torch.stack(out), None

    def attend_rows(self, q, keys, rank, ok, sink):
        """q [R, H, D], keys [n, D], rank and ok [R, m]."""
        k = keys[rank]
        s = dot(q[:, :, None], k[:, None]) * self.c.hd ** -0.5
        top = s.masked_fill(~ok[:, None], -1e30).amax(-1, keepdim=True)
        p = torch.where(ok[:, None], exp(s - top), 0.0)
        norm = total(p) + exp(sink[None] - top[..., 0])
        acc = torch.zeros_like(q)
        for i in range(k.shape[1]):
            acc = acc + p[:, :, i, None] * k[:, None, i]
        return (acc / norm[..., None]).to(BF16)

    def route(self, x, lw, top):
        c = self.c
        a = softplus(linear(x, lw["gate"])).sqrt()
        best = (a + lw["bias"]).argsort(dim=-1, descending=True, stable=True)[..., :top]
        w = a.gather(-1, best)
        if top > 1:
            w = w / (in_order(w)[..., None] + 1e-20)
        w = torch.zeros_like(a).scatter(-1, best, w * c.scale)
        return w, w > 0

    @staticmethod
    def silu(x):
        return x / (1.0 + exp(-x))
