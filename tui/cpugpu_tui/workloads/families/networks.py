"""Small networks and their parts: a convolution network, an LSTM, a bilinear form, sampling, an int8 layer."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from cpugpu_tui.workloads.contract import Workload, normals, uniforms, workload

if TYPE_CHECKING:
    import torch

PIXELS, FILTERS, WINDOW, CLASSES = 32, (3, 32, 64), 3, 10
"""Width of an image, channels before and after each convolution, width of a filter, and outputs."""

FEATURES = FILTERS[-1] * (PIXELS // 4) ** 2
"""Numbers of an image after two convolutions, each with a pooling by two."""

STEPS, LSTM_WIDTH = 64, 128
BILINEAR = 64
VOCABULARY = 32_000
LAYER = 1024
"""Inputs and outputs of the int8 layer."""


class _Cnn(Workload):
    """A network of two convolutions of 3×3 pixels and a linear layer, for images of 32×32 pixels."""

    kept = 3.0
    """Tensors of a layer's size that exist at once."""
    axis = "images"
    sizes: tuple[int, ...] = (1, 4, 16, 64, 256, 512)

    def weights(self, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return the filters and the matrix of the last layer."""
        shapes = [(out, into, WINDOW, WINDOW) for into, out in pairwise(FILTERS)]
        first, second, last = normals(dtype, generator, *shapes, (CLASSES, FEATURES))
        filters = (each / (each[0].numel()) ** 0.5 for each in (first, second))
        return (*filters, last / FEATURES**0.5)

    def images(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return the images, all normal."""
        return normals(dtype, generator, (n, FILTERS[0], PIXELS, PIXELS))

    def scores(self, first: torch.Tensor, second: torch.Tensor, last: torch.Tensor, images: torch.Tensor) -> Any:
        """Return the score of each class for each image."""
        from torch.nn import functional

        found = images
        for filters in (first, second):
            found = functional.max_pool2d(functional.conv2d(found, filters, padding=WINDOW // 2).relu(), 2)
        return functional.linear(found.flatten(1), last)

    @property
    def weight_count(self) -> float:
        """Numbers of all weights."""
        return float(sum(into * out for into, out in pairwise(FILTERS)) * WINDOW**2 + FEATURES * CLASSES)

    def forward_flops(self, n: int) -> float:
        """Return the FLOPs of the scores: a multiplication and an addition for each use of a weight."""
        sides = (PIXELS, PIXELS // 2)
        products = sum(
            into * out * WINDOW**2 * side**2 for (into, out), side in zip(pairwise(FILTERS), sides, strict=True)
        )
        return 2.0 * n * (products + FEATURES * CLASSES)

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of inputs and result, and of `kept` tensors of each layer."""
        layers = FILTERS[1] * PIXELS**2 + FILTERS[2] * (PIXELS // 2) ** 2
        return self.bytes_moved(n, itemsize_bytes) + self.kept * n * layers * itemsize_bytes


@workload
class Cnn(_Cnn):
    """A small convolution network (3×3: 3 to 32 to 64 channels, 10 classes) over n images of 32×32 pixels."""

    name = "cnn"
    stays = 3
    compiles = True

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return the weights and the images."""
        return (*self.weights(dtype, generator), *self.images(n, dtype, generator))

    def step(self, first: torch.Tensor, second: torch.Tensor, last: torch.Tensor, images: torch.Tensor) -> Any:
        """Return the scores."""
        return self.scores(first, second, last, images)

    def flops(self, n: int) -> float:
        """Return the FLOPs of the convolutions and the last layer."""
        return self.forward_flops(n)

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of weights and images read, and scores written."""
        return (self.weight_count + n * (FILTERS[0] * PIXELS**2 + CLASSES)) * itemsize_bytes


@workload
class CnnTraining(_Cnn):
    """One training step of `cnn` on n images: scores, cross-entropy, gradients, new weights."""

    name = "cnn-training"
    sizes = (1, 4, 16, 64, 256)
    dtypes = ("float64", "float32", "tf32")
    stays = 3
    kept = 6.0  # also the gradients

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return weights, images and their classes."""
        import torch

        labels = torch.randint(CLASSES, (n,), generator=generator)
        return (*self.weights(dtype, generator), *self.images(n, dtype, generator), labels)

    def step(self, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return loss, new weights, and the gradients that were subtracted from the old ones."""
        import torch

        *weights, images, labels = values
        learned = [each.detach().requires_grad_() for each in weights]
        with torch.enable_grad():
            loss = torch.nn.functional.cross_entropy(self.scores(learned[0], learned[1], learned[2], images), labels)
            gradients = torch.autograd.grad(loss, learned)
        return (loss.detach(), *(weight - each for weight, each in zip(weights, gradients, strict=True)), *gradients)

    def error(self, variant: str, result: tuple[torch.Tensor, ...], doubles: tuple[Any, ...]) -> float:
        """Return the largest error of loss, weights and gradients, each relative to its own size."""
        right = self.step(*doubles)
        return max(float((own - each).norm() / each.norm()) for own, each in zip(result, right, strict=True))

    def tolerance(self, dtype: str) -> float:
        """Return 5e-3 for single precision: a gradient sums over all pixels, and a pooling may choose the other one."""
        return 5e-3 if dtype == "float32" else super().tolerance(dtype)

    def flops(self, n: int) -> float:
        """Return three times the FLOPs of the scores, without the gradient of the images, which is not needed."""
        unneeded = 2.0 * n * FILTERS[0] * FILTERS[1] * WINDOW**2 * PIXELS**2
        return 3.0 * self.forward_flops(n) - unneeded

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of weights, images and classes read; and of loss, weights and gradients written."""
        numbers = 3.0 * self.weight_count + n * FILTERS[0] * PIXELS**2 + 1
        return numbers * itemsize_bytes + 8.0 * n


@workload
class Lstm(Workload):
    """An LSTM of width 128 over n sequences of 64 steps (cuDNN's on a GPU)."""

    name = "lstm"
    axis = "sequences"
    sizes = (1, 4, 16, 64, 256, 1024)
    dtypes = ("float64", "float32", "tf32")
    stays = 1

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[Any, ...]:
        """Return the LSTM, and the sequences."""
        import torch

        lstm = torch.nn.LSTM(LSTM_WIDTH, LSTM_WIDTH, batch_first=True, dtype=dtype).requires_grad_(False)
        for weight in lstm.parameters():
            weight.copy_(normals(dtype, generator, tuple(weight.shape))[0] / LSTM_WIDTH**0.5)
        return lstm, *normals(dtype, generator, (n, STEPS, LSTM_WIDTH))

    def step(self, lstm: Any, sequences: torch.Tensor) -> torch.Tensor:
        """Return the output of every step."""
        found: torch.Tensor = lstm(sequences)[0]
        return found

    def flops(self, n: int) -> float:
        """Return those of the products with the four gates' weights, for inputs and state."""
        return 2.0 * n * STEPS * 4 * LSTM_WIDTH * 2 * LSTM_WIDTH

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of weights and sequences read and outputs written."""
        weights = 4.0 * LSTM_WIDTH * (2 * LSTM_WIDTH + 2)
        return (weights + 2.0 * n * STEPS * LSTM_WIDTH) * itemsize_bytes

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return the same, and the gates of every step."""
        return self.bytes_moved(n, itemsize_bytes) + 5.0 * n * STEPS * LSTM_WIDTH * itemsize_bytes


@workload
class Einsum(Workload):
    """A bilinear form of width 64 for n pairs: einsum('kij,bi,bj->bk'), written as in a paper."""

    name = "einsum"
    axis = "pairs"
    sizes = (1, 8, 64, 512, 4096)
    stays = 1
    compiles = True

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return the form, and both vectors of each pair."""
        return normals(dtype, generator, (BILINEAR,) * 3, (n, BILINEAR), (n, BILINEAR))

    def step(self, form: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Return the value of every form for each pair."""
        import torch

        return torch.einsum("kij,bi,bj->bk", form, left, right)

    def flops(self, n: int) -> float:
        """Return those of the product with the left vectors, and with the right ones."""
        return 2.0 * n * (BILINEAR**3 + BILINEAR**2)

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of form and vectors read and the result written."""
        return (BILINEAR**3 + 3.0 * n * BILINEAR) * itemsize_bytes

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return the same, and the product with the left vectors, which is also transposed."""
        return self.bytes_moved(n, itemsize_bytes) + 2.0 * n * BILINEAR**2 * itemsize_bytes


@workload
class Sampling(Workload):
    """The next token of n sequences from 32,000 logits and Gumbel noise (an input), with its log-probability."""

    name = "sampling"
    axis = "sequences"
    sizes = (1, 4, 16, 64, 256, 512)
    dtypes = ("float64", "float32")
    compiles = True

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return the logits and the noise, −ln(−ln u) of uniform numbers u."""
        (logits,), (drawn,) = normals(dtype, generator, (n, VOCABULARY)), uniforms(dtype, generator, (n, VOCABULARY))
        return logits, -(-drawn.clamp(min=1e-30).log()).log()

    def step(self, logits: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the log-probability of each token that was drawn, and the token."""
        tokens = (logits + noise).argmax(dim=1)
        return logits.log_softmax(dim=1).gather(1, tokens.unsqueeze(1)).squeeze(1), tokens

    def error(self, variant: str, result: tuple[torch.Tensor, ...], doubles: tuple[Any, ...]) -> float:
        """Return how far a token's score is below the best, and a log-probability from that of its token."""
        (logits, noise), (found, tokens) = doubles, result
        scores, chosen = logits + noise, tokens.unsqueeze(1)
        best = scores.max(dim=1).values
        missed = (best - scores.gather(1, chosen).squeeze(1)).norm() / best.norm()
        right = logits.log_softmax(dim=1).gather(1, chosen).squeeze(1)
        return max(float(missed), float((found - right).norm() / right.norm()))

    def flops(self, n: int) -> float:
        """Return an addition for the noise, and four operations of the softmax, for each logit."""
        return 5.0 * n * VOCABULARY

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of logits and noise read, and of tokens (eight bytes) and log-probabilities written."""
        return n * (2.0 * VOCABULARY * itemsize_bytes + itemsize_bytes + 8)

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return the same, and scores and log-probabilities of all tokens."""
        return self.bytes_moved(n, itemsize_bytes) + 2.0 * n * VOCABULARY * itemsize_bytes


@workload
class Int8Layer(Workload):
    """A linear layer of 1,024 by 1,024 in int8 for n tokens, its sums in int32 and its result scaled to float32."""

    name = "int8-layer"
    axis = "tokens"
    sizes = (32, 128, 512, 2048, 8192)
    dtypes = ("float32",)  # of the result
    stays = 1

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return the weights and the tokens, −127 to 127."""
        import torch

        return tuple(
            torch.randint(-127, 128, shape, generator=generator).to(torch.int8)
            for shape in ((LAYER, LAYER), (n, LAYER))
        )

    def step(self, weights: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Return the product, scaled. `_int_mm` is torch's only int8 product of both devices (tried on 2.11 and
        2.13)."""
        import torch

        return torch._int_mm(tokens, weights).to(torch.float32) * (1 / 127**2)

    def flops(self, n: int) -> float:
        """Return a multiplication and an addition, of integers, for each token and weight."""
        return 2.0 * n * LAYER**2

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of weights and tokens read, one byte each, and of the result written, four bytes each."""
        return LAYER * (LAYER + 5.0 * n)

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return the same, and the sums, four bytes each."""
        return self.bytes_moved(n, itemsize_bytes) + 4.0 * n * LAYER
