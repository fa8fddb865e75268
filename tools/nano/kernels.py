"""Two small GPU kernels: Sinkhorn normalisation of the hyper-connections and the row threshold of the top-k.
On the CPU both are plain torch."""
import torch

try:
    import triton
    import triton.language as tl
except ImportError:                                  # CPU-only torch
    triton = None


def sinkhorn_torch(c, iters, eps):
    c = c / (c.sum(-2, keepdim=True) + eps)
    for _ in range(iters - 1):
        c = c / (c.sum(-1, keepdim=True) + eps)
        c = c / (c.sum(-2, keepdim=True) + eps)
    return c


if triton:
    @triton.jit
    def _sinkhorn_fwd(X, Y, S, n, eps, HC: tl.constexpr, HALF: tl.constexpr, BLOCK: tl.constexpr):
        """X, Y [n, HC, HC]; S [HALF, n, HC] the sums of each half step (columns first)."""
        t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        i = tl.arange(0, HC)
        at = t[:, None, None] * (HC * HC) + i[None, :, None] * HC + i[None, None, :]
        live = (t < n)[:, None, None] & (at >= 0)
        c = tl.load(X + at, mask=live, other=1.0)
        row = (t < n)[:, None] & (i >= 0)[None, :]
        for k in range(HALF):
            if k % 2 == 0:
                s = tl.sum(c, 1)
                c = c / (s[:, None, :] + eps)
            else:
                s = tl.sum(c, 2)
                c = c / (s[:, :, None] + eps)
            tl.store(S + (k * n + t[:, None]) * HC + i[None, :], s, mask=row)
        tl.store(Y + at, c, mask=live)

    @triton.jit
    def _sinkhorn_bwd(Y, S, G, D, n, eps, HC: tl.constexpr, HALF: tl.constexpr, BLOCK: tl.constexpr):
        t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        i = tl.arange(0, HC)
        at = t[:, None, None] * (HC * HC) + i[None, :, None] * HC + i[None, None, :]
        live = (t < n)[:, None, None] & (at >= 0)
        row = (t < n)[:, None] & (i >= 0)[None, :]
        y = tl.load(Y + at, mask=live, other=0.0)
        g = tl.load(G + at, mask=live, other=0.0)
        for r in range(HALF):
            k = HALF - 1 - r
            s = tl.load(S + (k * n + t[:, None]) * HC + i[None, :], mask=row, other=1.0) + eps
            if k % 2 == 0:
                g = (g - tl.sum(g * y, 1)[:, None, :]) / s[:, None, :]
                y = y * s[:, None, :]
            else:
                g = (g - tl.sum(g * y, 2)[:, :, None]) / s[:, :, None]
                y = y * s[:, :, None]
        tl.store(D + at, g, mask=live)

    @triton.jit
    def _threshold(SC, VIS, OUT, k, n, BLOCK: tl.constexpr, STEPS: tl.constexpr):
        """OUT[row, j] = visible and among the k largest of the row (ties at the cut all taken)."""
        row = tl.program_id(0).to(tl.int64)
        j = tl.arange(0, BLOCK)
        vis = tl.load(VIS + row * n + j, mask=j < n, other=0) != 0
        s = tl.load(SC + row * n + j, mask=vis, other=0.0).to(tl.float32)
        count = tl.sum(vis.to(tl.int32), 0)
        lo = tl.min(tl.where(vis, s, float("inf")), 0)
        hi = tl.max(tl.where(vis, s, -float("inf")), 0)
        if count > k:
            for _ in range(STEPS):
                mid = 0.5 * (lo + hi)
                up = tl.sum((vis & (s >= mid)).to(tl.int32), 0) >= k
                lo = tl.where(up, mid, lo)
                hi = tl.where(up, hi, mid)
        tl.store(OUT + row * n + j, (vis & (s >= lo)).to(tl.int8), mask=j < n)

    @torch.library.custom_op("nano::sinkhorn_fwd", mutates_args=())
    def sinkhorn_fwd(c: torch.Tensor, iters: int, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
        c = c.contiguous()
        hc, n, half = c.shape[-1], c.numel() // c.shape[-1] ** 2, 2 * iters - 1
        y = torch.empty_like(c)
        s = torch.empty(half, n, hc, device=c.device, dtype=torch.float32)
        _sinkhorn_fwd[(triton.cdiv(n, 128),)](c, y, s, n, eps, HC=hc, HALF=half, BLOCK=128, num_warps=4)
        return y, s

    @sinkhorn_fwd.register_fake
    def _(c, iters, eps):
        hc = c.shape[-1]
        return torch.empty_like(c), c.new_empty(2 * iters - 1, c.numel() // hc ** 2, hc)

    @torch.library.custom_op("nano::sinkhorn_bwd", mutates_args=())
    def sinkhorn_bwd(y: torch.Tensor, s: torch.Tensor, g: torch.Tensor, iters: int, eps: float) -> torch.Tensor:
        g = g.contiguous()
        hc, n, half = y.shape[-1], y.numel() // y.shape[-1] ** 2, 2 * iters - 1
        d = torch.empty_like(y)
        _sinkhorn_bwd[(triton.cdiv(n, 128),)](y, s, g, d, n, eps, HC=hc, HALF=half, BLOCK=128, num_warps=4)
        return d

    @sinkhorn_bwd.register_fake
    def _(y, s, g, iters, eps):
        return torch.empty_like(y)

    def _setup(ctx, inputs, output):
        _, ctx.iters, ctx.eps = inputs
        ctx.save_for_backward(*output)

    def _backward(ctx, gy, gs):
        y, s = ctx.saved_tensors
        return sinkhorn_bwd(y, s, gy, ctx.iters, ctx.eps), None, None

    sinkhorn_fwd.register_autograd(_backward, setup_context=_setup)

    @torch.library.custom_op("nano::select", mutates_args=())
    def select_op(scores: torch.Tensor, visible: torch.Tensor, k: int) -> torch.Tensor:
        n = scores.shape[-1]
        scores, visible = scores.contiguous(), visible.contiguous()
        out = torch.empty(scores.shape, device=scores.device, dtype=torch.int8)
        block = triton.next_power_of_2(n)
        _threshold[(scores.numel() // n,)](scores, visible.view(torch.int8), out, k, n, BLOCK=block, STEPS=18,
                                           num_warps=4)
        return out.view(torch.bool)

    @select_op.register_fake
    def _(scores, visible, k):
        return torch.empty_like(scores, dtype=torch.bool)


def sinkhorn(c, iters, eps):
    """c [.., hc, hc] positive: column normalise, then rows and columns iters - 1 times."""
    if triton and (c.is_cuda or INTERPRET):
        return sinkhorn_fwd(c, iters, eps)[0]
    return sinkhorn_torch(c, iters, eps)


def select(scores, visible, k):
    """Mask of the k largest visible scores of each row; all visible ones where there are no more."""
    if triton and (scores.is_cuda or INTERPRET):
        return select_op(scores, visible, k)
    n = scores.shape[-1]
    if n <= k:
        return visible
    s = scores.float().masked_fill(~visible, float("-inf"))
    top = s.sort(dim=-1, descending=True, stable=True).indices[..., :k]
    return torch.zeros_like(visible).scatter_(-1, top, True) & visible


INTERPRET = False
