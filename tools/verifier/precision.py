"""The precision of matrix products."""

from __future__ import annotations

import torch


def autocast() -> torch.autocast:
    """Bfloat16 where the processor has instructions for it; emulated, it is tens of times slower than float32."""
    capabilities = torch.cpu.get_capabilities()
    native = any(capabilities.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16"))
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=native)
