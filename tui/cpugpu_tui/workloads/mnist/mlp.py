"""Publication P5's training step, small and wide, over the batch and over the hidden width."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from cpugpu_tui.workloads.contract import CLOCK_FAIR, AsWritten, Costs, Report, Step, Workload, workload
from cpugpu_tui.workloads.mnist import data
from cpugpu_tui.workloads.mnist.network import Network, evaluate, fit

if TYPE_CHECKING:
    import torch

PIXELS, CLASSES = 784, 10
BATCH = 32
"""P5's."""

EPOCHS = {"full": 10, "small": 1}
"""By scale."""

POWERS = tuple(32 * 2**k for k in range(8))
"""32 to 4096, for batch and width."""

FIT = AsWritten(
    "P5",
    (CLOCK_FAIR,),
    variants=("pageable",),
    scope="building, compiling, training 10 epochs on batches from the host, evaluating",
    whole=True,
    sizes=(BATCH,),
    small_sizes=(BATCH,),
)


class Mlp(Workload):
    """Base of the three: a subclass says what its size is."""

    dtypes = ("float32", "tf32")
    has_end_to_end = False
    sizes = POWERS
    axis = "batch"

    def hidden(self, n: int) -> tuple[int, ...]:
        """Return the widths of the hidden layers."""
        raise NotImplementedError

    def batch(self, n: int) -> int:
        """Return the batch."""
        return n

    def _widths(self, n: int) -> tuple[int, ...]:
        return PIXELS, *self.hidden(n), CLASSES

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return images [batch, 784] in 0..1, labels, then weight and bias of each layer, as torch.nn draws them."""
        import torch

        digits = data.load(self.setting)
        chosen = torch.randint(0, len(digits.train_labels), (self.batch(n),), generator=generator)
        tensors = [digits.train_images[chosen].to(dtype), digits.train_labels[chosen]]
        return (*tensors, *first_weights(self._widths(n), dtype, generator))

    def place(self, variant: str, inputs: tuple[torch.Tensor, ...], device: str) -> tuple[Any, ...]:
        """Return the network on the device, and the batch where the variant feeds it from."""
        images, labels, *weights = inputs
        network = Network(weights, device, capturable=variant == "cuda-graph" and device != "cpu")
        if variant == "pinned" and device != "cpu":
            images, labels = images.pin_memory(), labels.pin_memory()
        elif variant in ("eager", "cuda-graph", "default"):
            images, labels = images.to(device), labels.to(device)
        if variant == "cuda-graph":
            network.capture(images, labels)
            network.restart()
        return network, images, labels

    def step(self, network: Network, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Take one training step on a batch that lies on the device."""
        return network.learn(images, labels)

    def captured(self, network: Network, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Take the same step as one captured graph; on a CPU, which has no graphs, eagerly."""
        return network.replay(images, labels)

    def fed(self, network: Network, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Copy the batch from the host, then take the step; on a CPU there is nothing to copy."""
        device = network.device
        return network.learn(images.to(device, non_blocking=True), labels.to(device, non_blocking=True))

    def steps(self) -> Mapping[str, Step]:
        """Batch resident, the captured graph, and the batch fed from pageable and from pinned memory."""
        return {"eager": self.step, "cuda-graph": self.captured, "pageable": self.fed, "pinned": self.fed}

    def reset(self, variant: str, placed: tuple[Any, ...]) -> None:
        """Put weights and optimiser back."""
        del variant
        placed[0].restart()

    def checked(self, variant: str, placed: tuple[Any, ...]) -> Any:
        """Return all parameters after one eager step without dropout, whose draws differ between devices.

        For the captured graph, which always drops out, that shows the network it works on to be the same; that it
        trains as well is compared by loss and accuracy of whole trainings (tests/gpu/test_mnist_gpu.py).
        """
        del variant
        network, images, labels = placed
        network.restart()
        network.learn(images.to(network.device), labels.to(network.device), dropout=False)
        return network.flat()

    def reference(self, variant: str, doubles: tuple[Any, ...]) -> Any:
        """Return the same in float64 on the CPU."""
        del variant
        return self.checked("eager", self.place("eager", doubles, "cpu"))

    def prepare_written(self, variant: str, n: int, device: str) -> None:
        """Load and scale the images: P5 does it before its clock starts."""
        del variant, n, device
        data.load(self.setting)

    def written(self, variant: str, n: int, dtype: torch.dtype, device: str, report: Report) -> Mapping[str, float]:
        """Build the network and its optimiser, train, evaluate."""
        del variant
        import torch

        digits = data.load(self.setting)
        weights = first_weights(self._widths(n), dtype, torch.Generator().manual_seed(1))
        network, epochs = Network(weights, device), EPOCHS[self.setting.scale]
        began_ns = report.stopwatch_ns()

        def epoch_over(epoch: int, loss: float, steps: int) -> None:
            nonlocal began_ns
            elapsed_ns = report.stopwatch_ns() - began_ns
            accuracy = evaluate(network, digits, BATCH)[1] if epoch == epochs else None
            report.epoch(epoch, epochs, loss, accuracy, elapsed_ns, steps)
            began_ns = report.stopwatch_ns()

        fit(network, digits, epochs, self.batch(n), report, epoch_over)
        return {}

    def written_operations(self, n: int) -> int:
        """Return the training steps; the evaluation, 1 % of the work, is not counted."""
        images = data.COUNTS[self.setting.scale][0]
        return EPOCHS[self.setting.scale] * -(-images // self.batch(n)) if self.as_written else 0

    def flops(self, n: int) -> float:
        """Two per weight and image forward, two for the weights' gradients, two for the inputs' (not the images')."""
        widths = self._widths(n)
        products = [wide * narrow for wide, narrow in pairwise(widths)]
        return 2.0 * self.batch(n) * (3 * sum(products) - products[0])

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Ten passes over the parameters (forward, backward, gradient, Adam seven), three over the activations."""
        widths = self._widths(n)
        parameters = sum((wide + 1) * narrow for wide, narrow in pairwise(widths))
        return (10.0 * parameters + 3.0 * self.batch(n) * sum(widths)) * itemsize_bytes

    def costs(self, variant: str, n: int, itemsize_bytes: int) -> Costs:
        """Return the same for every variant; memory is a little above what is moved once."""
        del variant
        moved_bytes = self.bytes_moved(n, itemsize_bytes)
        return Costs(self.flops(n), moved_bytes, moved_bytes)


@workload
class MnistMlp(Mlp):
    """One training step of P5's small network, 784→128→10, at a batch of n."""

    name = "mnist-mlp"
    as_written = FIT

    def hidden(self, n: int) -> tuple[int, ...]:
        """One layer of 128."""
        del n
        return (128,)


@workload
class MnistMlpWide(Mlp):
    """One training step of P5's wide network, 784→1000→1000→10, at a batch of n."""

    name = "mnist-mlp-wide"
    as_written = FIT

    def hidden(self, n: int) -> tuple[int, ...]:
        """Two layers of 1000."""
        del n
        return 1000, 1000


@workload
class MnistMlpWidth(Mlp):
    """One training step of 784→n→10 at batch 32."""

    name = "mnist-mlp-width"
    axis = "hidden units"

    def hidden(self, n: int) -> tuple[int, ...]:
        """One layer of n."""
        return (n,)

    def batch(self, n: int) -> int:
        """P5's."""
        del n
        return BATCH


def first_weights(widths: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> list[torch.Tensor]:
    """Return weight [out, in] and bias [out] of each layer, uniform in ±1/√in as torch.nn.Linear has them."""
    import torch

    tensors: list[torch.Tensor] = []
    for wide, narrow in pairwise(widths):
        shapes = ((narrow, wide), (narrow,))
        tensors += [(torch.rand(*s, generator=generator, dtype=dtype) * 2 - 1) * wide**-0.5 for s in shapes]
    return tensors
