"""Rounding primitives of the format, with straight-through gradients (values equal the engine's bit for bit)."""
import torch
import torch.nn.functional as F

BF16, F32, FP8 = torch.bfloat16, torch.float32, torch.float8_e4m3fn
INV448 = float(torch.tensor(1.0) / torch.tensor(448.0))
INV6 = float(torch.tensor(1.0) / torch.tensor(6.0))


def ste(x, q):
    """q in the forward pass, the gradient of x in the backward pass."""
    return (x - x.detach()).to(q.dtype) + q.detach()


def pow2ceil(y):
    return ((y.view(torch.int32) + 0x7FFFFF) & 0x7F800000).view(F32)


def e4m3(x):
    return x.clamp(-448.0, 448.0).to(FP8).to(F32)


def e2m1(v):
    """Nearest of 0 .5 1 1.5 2 3 4 6, ties to the even code; |v| <= 6."""
    a = v.abs()
    step = torch.where(a < 2, 0.5, torch.where(a < 4, 1.0, 2.0))
    return torch.sign(v) * torch.round(a / step) * step


def groups(x, n):
    return x.float().unflatten(-1, (-1, n))


def q8_parts(g):
    s = pow2ceil(g.abs().amax(-1, keepdim=True).clamp_min(1e-4) * INV448)
    return e4m3(g / s), s


def q8(x):
    """Activations and window KV: E4M3 with a power of two per 32."""
    with torch.no_grad():
        q, s = q8_parts(groups(x, 32))
        y = (q * s).flatten(-2).to(BF16)
    return ste(x, y)


def q4i(x):
    """Index queries and keys: E2M1 with a power of two per 32."""
    with torch.no_grad():
        g = groups(x, 32)
        s = pow2ceil(g.abs().amax(-1, keepdim=True).clamp_min(6 * 2.0 ** -126) * INV6)
        y = (e2m1((g / s).clamp(-6, 6)) * s).flatten(-2).to(BF16)
    return ste(x, y)


def q4kv(x):
    """Compressed KV: E2M1 with an E4M3 scale per 16."""
    with torch.no_grad():
        g = groups(x, 16)
        s = e4m3(g.abs().amax(-1, keepdim=True).clamp_min(6 * 2.0 ** -9) / 6.0)
        y = (e2m1((g / s).clamp(-6, 6)) * s).flatten(-2).to(BF16)
    return ste(x, y)


# Weights. Each *_parts gives (codes as values, scales); fake_* gives what the engine computes with, in BF16.

def f8_parts(w):
    """32x32 blocks: values [.., o, i] in E4M3 range and scales [.., ceil(o/32), i/32]."""
    o, i = w.shape[-2:]
    w = F.pad(w.float(), (0, 0, 0, -o % 32))
    b = w.unflatten(-2, (-1, 32)).unflatten(-1, (-1, 32))
    s = pow2ceil(b.abs().amax((-3, -1), keepdim=True).clamp_min(1e-20) * INV448)
    q = e4m3(b / s).flatten(-2).flatten(-3, -2)[..., :o, :]
    return q, s.squeeze(-1).squeeze(-2)


def fake_f8(w):
    with torch.no_grad():
        q, s = f8_parts(w)
        full = s.repeat_interleave(32, -2)[..., :w.shape[-2], :].repeat_interleave(32, -1)
        y = (q * full).to(BF16)
    return ste(w, y)


def f4_parts(w):
    g = groups(w, 32)
    s = pow2ceil(g.abs().amax(-1, keepdim=True).clamp_min(1e-20) * INV6)
    return e2m1((g / s).clamp(-6, 6)), s


def fake_f4(w):
    with torch.no_grad():
        q, s = f4_parts(w)
        y = (q * s).flatten(-2).to(BF16)
    return ste(w, y)


def row_parts(w):
    g = groups(w, 32)
    s = pow2ceil(g.abs().amax(-1, keepdim=True).clamp_min(1e-20) * INV448)
    return e4m3(g / s), s


def fake_row(w):
    with torch.no_grad():
        q, s = row_parts(w)
        y = (q * s).flatten(-2).to(BF16)
    return ste(w, y)


def fake_bf16(w):
    return ste(w, w.detach().to(BF16))


FAKE = {"f8": fake_f8, "f4": fake_f4, "row": fake_row, "bf16": fake_bf16, "f32": lambda w: w}
