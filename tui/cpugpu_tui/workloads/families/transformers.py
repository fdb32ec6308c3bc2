"""The parts of a transformer, and one block of it: over a whole sequence, and token by token."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from cpugpu_tui.workloads.contract import Workload, normals, same_normals, workload

if TYPE_CHECKING:
    import torch

HEADS, HEAD_WIDTH = 8, 64
WIDTH = HEADS * HEAD_WIDTH

CONTEXT = 1024
"""Earlier tokens of each sequence in the KV cache."""

ROW = 1024
"""Numbers of a row that is normalised."""

TOKENS, VECTOR = 50_000, 256
"""Rows of the embedding table, and numbers in each."""

NOT_TF32 = ("float64", "float32", "bfloat16", "float16")
"""Element types of work without matrix products, which TF32 does not change."""


@workload
class Attention(Workload):
    """Attention among n tokens, 8 heads of width 64, as one fused operation (SDPA)."""

    name = "attention"
    axis = "tokens"
    sizes = (16, 32, 64, 128, 256, 512, 1024, 2048)
    compiles = True

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return queries, keys and values."""
        return normals(dtype, generator, *[(1, HEADS, n, HEAD_WIDTH)] * 3)

    def step(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Return the attention of every token to every token."""
        import torch

        return torch.nn.functional.scaled_dot_product_attention(queries, keys, values)

    def flops(self, n: int) -> float:
        """Return those of both matrix products."""
        return 4.0 * WIDTH * n * n

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of three tensors read and one written."""
        return 4.0 * WIDTH * n * itemsize_bytes

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return the same, in float64 with all weights of attention: a GPU has no fused kernel for it."""
        return self.bytes_moved(n, itemsize_bytes) + weights_bytes(n, itemsize_bytes)


def weights_bytes(n: int, itemsize_bytes: int) -> float:
    """Return the memory of attention weights before and after the softmax, and a copy; fused kernels store none."""
    return 3.0 * HEADS * n * n * itemsize_bytes if itemsize_bytes == 8 else 0.0


class Block(Workload):
    """A transformer block without biases: attention and a network of four times the width, each after layer norm."""

    stays = 1
    compiles = True

    def parameters(self, dtype: torch.dtype, generator: torch.Generator) -> list[torch.Tensor]:
        """Return the matrices of query, key and value; of attention's result; and of the network."""
        shapes = (3 * WIDTH, WIDTH), (WIDTH, WIDTH), (4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH)
        return [each / each.shape[1] ** 0.5 for each in same_normals(dtype, generator, *shapes)]

    def block(self, parameters: list[Any], tokens: torch.Tensor, attend: Callable[..., Any]) -> torch.Tensor:
        """Return tokens [batch, length, WIDTH] after the block; `attend` takes queries, keys and values by head."""
        import torch

        functional = torch.nn.functional  # `from torch.nn import` would take 0.7 µs of each call
        projection, merge, up, down = parameters
        normal = functional.layer_norm(tokens, (WIDTH,))
        by_head = functional.linear(normal, projection).view(*tokens.shape[:2], 3, HEADS, HEAD_WIDTH)
        tokens = tokens + functional.linear(attend(*by_head.permute(2, 0, 3, 1, 4)).transpose(1, 2).flatten(2), merge)
        normal = functional.layer_norm(tokens, (WIDTH,))
        return tokens + functional.linear(functional.gelu(functional.linear(normal, up)), down)


@workload
class Prefill(Block):
    """Transformer block of width 512 over one sequence of n tokens at once (prefill), causal attention."""

    name = "transformer"
    axis = "tokens"
    sizes = (1, 4, 16, 64, 256, 1024)

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[Any, ...]:
        """Return the parameters and a sequence."""
        return self.parameters(dtype, generator), *normals(dtype, generator, (1, n, WIDTH))

    def step(self, parameters: list[Any], tokens: torch.Tensor) -> torch.Tensor:
        """Return the sequence after the block."""
        import torch

        attend = torch.nn.functional.scaled_dot_product_attention
        return self.block(parameters, tokens, partial(attend, is_causal=True))

    def flops(self, n: int) -> float:
        """Return those of the matrix products; each token attends to half of the others on average."""
        return 24.0 * WIDTH**2 * n + 2.0 * WIDTH * n * n

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of parameters and tokens read, and of tokens written."""
        return (12.0 * WIDTH**2 + 2.0 * WIDTH * n) * itemsize_bytes

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return the same, and what the block computes on its way."""
        return (
            self.bytes_moved(n, itemsize_bytes) + 14.0 * WIDTH * n * itemsize_bytes + weights_bytes(n, itemsize_bytes)
        )


@workload
class Decode(Block):
    """Transformer block of width 512 over the next token of n sequences (decode), 1,024 earlier ones in a KV cache."""

    name = "transformer-decode"
    axis = "sequences"
    sizes = (1, 2, 4, 8, 16, 32, 64)
    stays = 2

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[Any, ...]:
        """Return the parameters, the cache of keys and values, and a token of each sequence."""
        cache = (n, HEADS, CONTEXT, HEAD_WIDTH)
        return (
            self.parameters(dtype, generator),
            normals(dtype, generator, cache, cache),
            *normals(dtype, generator, (n, 1, WIDTH)),
        )

    def step(self, parameters: list[Any], cache: tuple[Any, Any], tokens: torch.Tensor) -> torch.Tensor:
        """Return the tokens after the block. The cache is read, and not copied to append one token."""
        import torch

        def attend(query: Any, key: Any, value: Any) -> Any:
            scores = torch.cat((query @ cache[0].mT, query @ key.mT), dim=-1) * HEAD_WIDTH**-0.5
            weights = scores.softmax(dim=-1)
            return weights[..., :CONTEXT] @ cache[1] + weights[..., CONTEXT:] @ value

        return self.block(parameters, tokens, attend)

    def flops(self, n: int) -> float:
        """Return those of the matrix products."""
        return (24.0 * WIDTH**2 + 4.0 * WIDTH * (CONTEXT + 1)) * n

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of parameters, cache and tokens read, and of tokens written."""
        return (12.0 * WIDTH**2 + 2.0 * WIDTH * (CONTEXT + 1) * n) * itemsize_bytes


class Rows(Workload):
    """n rows of 1,024 normals that are read and written once."""

    axis = "rows"
    sizes = (1, 8, 64, 512, 4096, 16384)
    dtypes = NOT_TF32
    compiles = True

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return the rows."""
        return normals(dtype, generator, (n, ROW))

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of the rows read and written."""
        return 2.0 * n * ROW * itemsize_bytes


@workload
class Softmax(Rows):
    """Softmax of each of n rows of 1,024 numbers."""

    name = "softmax"

    def step(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the softmax of each row."""
        return rows.softmax(dim=1)

    def flops(self, n: int) -> float:
        """Return five per number: maximum, difference, exponential, sum, division."""
        return 5.0 * n * ROW


@workload
class LayerNorm(Rows):
    """Layer normalisation of n rows of 1,024 numbers, with a weight and a bias."""

    name = "layernorm"
    stays = 2

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return weight, bias and rows."""
        return normals(dtype, generator, (ROW,), (ROW,), (n, ROW))

    def step(self, weight: torch.Tensor, bias: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Return each row normalised, times the weight, plus the bias."""
        import torch

        return torch.nn.functional.layer_norm(rows, (ROW,), weight, bias)

    def flops(self, n: int) -> float:
        """Return seven per number: sum, difference, square and its sum, factor, weight, bias."""
        return 7.0 * n * ROW

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of the rows read and written, and of weight and bias."""
        return super().bytes_moved(n + 1, itemsize_bytes)


@workload
class Embedding(Workload):
    """Vectors of n random tokens, from a table of 50,000 vectors of 256 numbers."""

    name = "embedding"
    axis = "tokens"
    sizes = (1, 16, 256, 4096, 65536)
    dtypes = NOT_TF32
    stays = 1
    compiles = True

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return the table and the tokens."""
        import torch

        return *same_normals(dtype, generator, (TOKENS, VECTOR)), torch.randint(TOKENS, (n,), generator=generator)

    def step(self, table: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Return the vector of each token."""
        import torch

        return torch.nn.functional.embedding(tokens, table)

    def flops(self, n: int) -> float:
        """Return 0: nothing is computed."""
        return 0.0

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of n vectors read and written, and of the tokens, eight bytes each."""
        return n * (2.0 * VECTOR * itemsize_bytes + 8)

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of table, tokens and result."""
        return TOKENS * VECTOR * itemsize_bytes + self.bytes_moved(n, itemsize_bytes)
