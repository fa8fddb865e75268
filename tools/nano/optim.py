"""Muon for matrices, AdamW for the rest; states can be packed to bytes and restored."""
import numpy as np
import torch

ADAM_LR = {"embed": 1.0, "head": 0.7, "table": 2.0, "mk_embed": 1.0, "mk_head": 1.0, "conf": 1.0, "gate": 0.3,
           "fn": 0.2, "base": 0.5, "scale": 0.5, "norm": 0.5, "sink": 0.5, "i_wp": 0.5}


def adam_scale(name):
    key = name.split(".")[-1]
    for part, scale in ADAM_LR.items():
        if part in key:
            return scale
    return 0.5


def is_matrix(name, p):
    key = name.split(".")[-1]
    return key in ("wq_a", "wq_b", "wkv", "wo_a", "wo_b", "w1", "w2", "w3", "s1", "s2", "s3", "c_wkv", "c_wgate",
                   "i_wk", "i_wq", "main_proj")


def orthogonal(g, steps=5):
    """Newton-Schulz on a batch of matrices."""
    x = g.to(torch.bfloat16) if g.is_cuda else g.clone()
    flip = x.shape[-2] > x.shape[-1]
    if flip:
        x = x.transpose(-1, -2)
    x = x / (x.float().norm(dim=(-2, -1), keepdim=True) + 1e-7).to(x.dtype)
    for _ in range(steps):
        a = x @ x.transpose(-1, -2)
        b = -4.7750 * a + 2.0315 * (a @ a)
        x = 3.4445 * x + b @ x
    return (x.transpose(-1, -2) if flip else x).float()


class Optimizer:
    """One step updates every parameter; lr is the common factor of the schedule."""

    def __init__(self, named, muon_lr=6e-3, adam_lr=3e-3, decay=0.05, o_groups=1):
        self.muon = [(n, p) for n, p in named if is_matrix(n, p)]
        self.adam = [(n, p) for n, p in named if not is_matrix(n, p)]
        self.muon_lr, self.adam_lr, self.decay, self.o_groups = muon_lr, adam_lr, decay, o_groups
        self.momentum = [torch.zeros_like(p) for _, p in self.muon]
        self.m1 = [torch.zeros_like(p) for _, p in self.adam]
        self.m2 = [torch.zeros_like(p) for _, p in self.adam]
        self.t = 0
        self.ns = orthogonal

    @torch.no_grad()
    def step(self, lr):
        self.t += 1
        self.step_muon(lr * self.muon_lr)
        self.step_adam(lr * self.adam_lr)

    def step_muon(self, lr):
        grads = [p.grad for _, p in self.muon]
        torch._foreach_lerp_(self.momentum, grads, 0.05)
        updates = torch._foreach_lerp(grads, self.momentum, 0.95)
        alike = {}                                   # matrices of one shape, or its transpose, go together
        for i, ((name, _), u) in enumerate(zip(self.muon, updates)):
            if name.endswith("wo_a"):
                u = u.unflatten(1, (self.o_groups, -1))
            u = u.reshape(-1, *u.shape[-2:])
            flip = u.shape[-2] > u.shape[-1]
            u = u.transpose(-1, -2) if flip else u
            alike.setdefault(u.shape[-2:], []).append((i, flip, u))
        for shape, parts in alike.items():
            done = self.ns(torch.cat([u for _, _, u in parts])) * (0.2 * max(shape) ** 0.5)
            for (i, flip, _), u in zip(parts, done.split([len(u) for _, _, u in parts])):
                p = self.muon[i][1]
                p.mul_(1 - lr * self.decay).add_((u.transpose(-1, -2) if flip else u).reshape(p.shape), alpha=-lr)

    def step_adam(self, lr):
        ps, grads = [p for _, p in self.adam], [p.grad for _, p in self.adam]
        total = torch.stack(torch._foreach_norm(grads)).norm()
        torch._foreach_mul_(grads, (1.0 / total.clamp_min(1.0)))
        b1, b2 = 0.9, 0.97
        torch._foreach_lerp_(self.m1, grads, 1 - b1)
        torch._foreach_mul_(self.m2, b2)
        torch._foreach_addcmul_(self.m2, grads, grads, 1 - b2)
        denom = torch._foreach_sqrt(torch._foreach_div(self.m2, 1 - b2 ** self.t))
        torch._foreach_add_(denom, 1e-9)
        upd = torch._foreach_div(torch._foreach_div(self.m1, 1 - b1 ** self.t), denom)
        for (name, p), u in zip(self.adam, upd):
            p.add_(u, alpha=-lr * adam_scale(name))

    def states(self):
        return ([("muon", n, s) for (n, _), s in zip(self.muon, self.momentum)]
                + [("m1", n, s) for (n, _), s in zip(self.adam, self.m1)]
                + [("m2", n, s) for (n, _), s in zip(self.adam, self.m2)])


# ---------------------------------------------------------------------------- compact state

def pack8(x, root):
    """8-bit blocks of 128 with an FP16-exponent scale; second moments keep their square root."""
    x = x.detach().float().flatten()
    x = x.sqrt() if root else x
    pad = torch.nn.functional.pad(x, (0, -len(x) % 128)).view(-1, 128)
    s = pad.abs().amax(1, keepdim=True).clamp_min(1e-30) / 127
    return torch.round(pad / s).to(torch.int8).cpu().numpy(), s.squeeze(1).cpu().numpy()


def unpack8(q, s, like, root):
    x = torch.from_numpy(q.astype(np.float32) * s[:, None]).flatten()[:like.numel()].view(like.shape)
    return (x * x if root else x).to(like.device)


def save_state(path, model, names, optimizer, info, moments=True):
    """Weights in BF16, moments in 8 bits, in files of at most 15 MiB: path/state-N.npz."""
    import json
    import os
    items = []
    for n in names:
        w = model.param(n).detach()
        items.append((f"w/{n}", w.to(torch.bfloat16).view(torch.int16).cpu().numpy()))
    if moments and optimizer:
        for kind, n, s in optimizer.states():
            q, scale = pack8(s, kind == "m2")
            items += [(f"{kind}/{n}/q", q), (f"{kind}/{n}/s", scale)]
    items.append(("info", np.frombuffer(json.dumps(dict(info, t=optimizer.t if optimizer else 0)).encode(), np.uint8)))
    os.makedirs(path, exist_ok=True)
    files, size, part = [{}], 0, {}
    for k, v in items:
        if size + v.nbytes > 14 << 20 and files[-1]:
            files.append({})
            size = 0
        files[-1][k] = v
        size += v.nbytes
    for i, part in enumerate(files):
        np.savez(os.path.join(path, f"state-{i}.npz"), **part)


def load_state(path, model, optimizer):
    """Restores what save_state wrote; returns its info."""
    import glob
    import json
    import os
    got = {}
    for f in sorted(glob.glob(os.path.join(path, "state-*.npz"))):
        with np.load(f) as z:
            got.update({k: z[k] for k in z.files})
    info = json.loads(got["info"].tobytes())
    with torch.no_grad():
        for k, v in got.items():
            if k.startswith("w/"):
                model.param(k[2:]).copy_(torch.from_numpy(v).view(torch.bfloat16))
        if optimizer and any(k.startswith("muon/") for k in got):
            for kind, n, s in optimizer.states():
                if f"{kind}/{n}/q" in got:
                    s.copy_(unpack8(got[f"{kind}/{n}/q"], got[f"{kind}/{n}/s"], s, kind == "m2"))
            optimizer.t = info["t"]
    return info
