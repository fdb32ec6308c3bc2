"""Publication P5: its networks with their training steps, and the workloads that time them by batch and by width."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from cpugpu_tui.workloads import mnist_data
from cpugpu_tui.workloads.contract import CLOCK_FAIR, AsWritten, Report, Step, Workload, layers, workload
from cpugpu_tui.workloads.mnist_data import Digits

if TYPE_CHECKING:
    import torch


PIXELS, CLASSES = 784, 10
BATCH = 32
"""Batch of P5."""

EPOCHS = {"full": 10, "small": 1}
"""Epochs of a training, by scale."""

SWEEP_SIZES = tuple(32 * 2**k for k in range(8))
"""Sizes of the batch and width sweeps."""

LOADING_BYTES_PER_PIXEL = 6
"""Peak memory per pixel of the data set while it is loaded: 1 byte as read, 4 as float32, 1 for temporaries."""

BATCH_COPIES = 25
"""Most copies of one batch of images in memory, including freed ones that the allocator keeps. In 12 runs with batches
of 4,096 and 65,536, the peak memory of the process held 10 to 25."""

WHOLE_TRAINING = AsWritten(
    "P5",
    (CLOCK_FAIR,),
    variants=("pageable",),
    scope="building the network, training 10 epochs on batches from the host, evaluating",
    whole=True,
    sizes=(BATCH,),
    small_sizes=(BATCH,),
)


class Mlp(Workload):
    """Base class of the three workloads; a subclass maps its size to a batch and widths."""

    dtypes = ("float32", "tf32")
    has_end_to_end = False
    sizes = SWEEP_SIZES
    axis = "batch"

    def layout(self, n: int) -> tuple[int, ...]:
        """Return the batch and the widths of all layers, of size n."""
        raise NotImplementedError

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return images [batch, 784] in 0..1, labels, then weight and bias of each layer, drawn as in torch.nn."""

        batch, *widths = self.layout(n)
        images, labels = mnist_data.batch(self.setting, batch, generator)
        return images.to(dtype), labels, *layers(dtype, generator, *widths)

    def place(self, variant: str, inputs: tuple[torch.Tensor, ...], device: str) -> tuple[Any, ...]:
        """Return the network on the device, and the batch in the memory from which the variant reads it."""
        images, labels, *weights = inputs
        network = Network(weights, device, capturable=variant == "cuda-graph" and device != "cpu")
        if variant == "pinned" and device != "cpu":
            images, labels = images.pin_memory(), labels.pin_memory()
        elif variant in ("eager", "cuda-graph", "default"):  # `default` is the first variant, `eager`
            images, labels = images.to(device), labels.to(device)
        if variant == "cuda-graph":
            network.capture(images, labels)
            network.restart()
        return network, images, labels

    def step(self, network: Network, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Run one training step on a batch that is resident on the device."""
        return network.learn(images, labels)

    def captured(self, network: Network, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Run the same step as one captured CUDA graph; eagerly on a CPU."""
        return network.replay(images, labels)

    def fed(self, network: Network, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Copy the batch from the host, then run the step; a CPU needs no copy."""
        device = network.device
        return network.learn(images.to(device, non_blocking=True), labels.to(device, non_blocking=True))

    def steps(self) -> Mapping[str, Step]:
        """Return the variants: resident batch, captured graph, and batch from pageable or pinned memory."""
        return {"eager": self.step, "cuda-graph": self.captured, "pageable": self.fed, "pinned": self.fed}

    def reset(self, variant: str, placed: tuple[Any, ...]) -> None:
        """Restore weights and optimiser."""
        placed[0].restart()

    def checked(self, variant: str, placed: tuple[Any, ...]) -> Any:
        """Return all parameters after one eager step without dropout, whose random numbers differ between devices.

        The captured graph always uses dropout, so this checks only its network. tests/gpu/test_mnist_gpu.py compares
        loss and accuracy of whole trainings with it.
        """
        network, images, labels = placed
        network.restart()
        network.learn(images.to(network.device), labels.to(network.device), dropout=False)
        return network.flat()

    def prepare_written(self, variant: str, n: int, device: str) -> None:
        """Load and scale the images, which P5 does before its clock starts."""
        mnist_data.load(self.setting)

    def written(self, variant: str, n: int, dtype: torch.dtype, device: str, report: Report) -> Mapping[str, float]:
        """Build the network and its optimiser, train, evaluate."""
        import torch

        digits = mnist_data.load(self.setting)
        batch, *widths = self.layout(n)
        weights = layers(dtype, torch.Generator().manual_seed(1), *widths)
        network, epochs = Network(weights, device), EPOCHS[self.setting.scale]
        began_ns = report.stopwatch_ns()

        def epoch_over(epoch: int, loss: float, steps: int) -> None:
            nonlocal began_ns
            elapsed_ns = report.stopwatch_ns() - began_ns
            accuracy = evaluate(network, digits, batch)[1] if epoch == epochs else None
            report.epoch(epoch, epochs, loss, accuracy, elapsed_ns, steps)
            began_ns = report.stopwatch_ns()

        fit(network, digits, epochs, batch, report, epoch_over)
        return {}

    def written_operations(self, n: int) -> int:
        """Return the training steps, without the evaluation (1 % of the work)."""
        images = mnist_data.COUNTS[self.setting.scale][0]
        return EPOCHS[self.setting.scale] * -(-images // self.layout(n)[0]) if self.as_written else 0

    def flops(self, n: int) -> float:
        """Return 6 FLOPs per weight and image: 2 forward, 2 for its gradient, 2 for the input's (not in layer 1)."""
        batch, *widths = self.layout(n)
        products = [wide * narrow for wide, narrow in pairwise(widths)]
        return 2.0 * batch * (3 * sum(products) - products[0])

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return 10 passes over the parameters (forward, backward, gradient, 7 in Adam), 3 over the activations."""
        batch, *widths = self.layout(n)
        parameters = sum((wide + 1) * narrow for wide, narrow in pairwise(widths))
        return (10.0 * parameters + 3.0 * batch * sum(widths)) * itemsize_bytes

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return the memory of the whole data set, which is on the host, of copies of the batch, and of the network."""
        images_bytes = float(LOADING_BYTES_PER_PIXEL * PIXELS * sum(mnist_data.COUNTS[self.setting.scale]))
        batches_bytes = BATCH_COPIES * self.layout(n)[0] * PIXELS * itemsize_bytes
        return images_bytes + batches_bytes + self.bytes_moved(n, itemsize_bytes)


@workload
class MnistMlp(Mlp):
    """One training step of P5's small network, 784→128→10, at a batch of n."""

    name = "mnist-mlp"
    as_written = WHOLE_TRAINING

    def layout(self, n: int) -> tuple[int, ...]:
        """Return a batch of n and one hidden layer."""
        return n, PIXELS, 128, CLASSES


@workload
class MnistMlpWide(Mlp):
    """One training step of P5's wide network, 784→1000→1000→10, at a batch of n."""

    name = "mnist-mlp-wide"
    as_written = WHOLE_TRAINING

    def layout(self, n: int) -> tuple[int, ...]:
        """Return a batch of n and two hidden layers."""
        return n, PIXELS, 1000, 1000, CLASSES


@workload
class MnistMlpWidth(Mlp):
    """One training step of 784→n→10 at batch 32."""

    name = "mnist-mlp-width"
    axis = "hidden units"

    def layout(self, n: int) -> tuple[int, ...]:
        """Return P5's batch and a hidden layer of n."""
        return BATCH, PIXELS, n, CLASSES


DROPOUT = 0.2
"""Dropout after each hidden layer, as in P5."""

LEARNING_RATE = 1e-3
"""Adam's default in TensorFlow, which P5 used, and in torch."""

CAPTURE_WARM_UPS = 3
"""Warm-up steps on a side stream before a capture, in which libraries allocate their workspaces."""


class Network:
    """A multilayer perceptron on one device, with its optimiser and, after `capture`, its CUDA graph."""

    def __init__(self, weights: Sequence[torch.Tensor], device: str, *, capturable: bool = False) -> None:
        """Initialise from host tensors: weight [out, in] and bias [out] of each layer in turn."""
        import torch

        self.device = device
        self._start = [tensor.detach().to(device, copy=True) for tensor in weights]
        self.parameters = [tensor.clone().requires_grad_() for tensor in self._start]
        self._adam = torch.optim.Adam(self.parameters, lr=LEARNING_RATE, capturable=capturable)
        self._replay: Callable[[], None] | None = None
        self._loss: Any = None

    def forward(self, images: torch.Tensor, *, dropout: bool) -> torch.Tensor:
        """Return the logits [batch, 10] for images [batch, 784]."""
        from torch.nn import functional

        hidden, layers = images, list(zip(self.parameters[::2], self.parameters[1::2], strict=True))
        for weight, bias in layers[:-1]:
            hidden = functional.relu(functional.linear(hidden, weight, bias))
            hidden = functional.dropout(hidden, DROPOUT, training=dropout)
        return functional.linear(hidden, *layers[-1])

    def learn(self, images: torch.Tensor, labels: torch.Tensor, *, dropout: bool = True) -> torch.Tensor:
        """Run one training step on a batch on the device; return its loss without synchronising."""
        return self.learn_with_logits(images, labels, dropout=dropout)[0]

    def learn_with_logits(
        self, images: torch.Tensor, labels: torch.Tensor, *, dropout: bool = True
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Run one training step; return loss and logits without synchronising."""
        from torch.nn.functional import cross_entropy

        self._adam.zero_grad(set_to_none=True)
        logits = self.forward(images, dropout=dropout)
        loss = cross_entropy(logits, labels)
        loss.backward()  # type: ignore[no-untyped-call]
        self._adam.step()
        return loss.detach(), logits.detach()

    def capture(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        """Capture a step on exactly this batch as a CUDA graph for `replay`. Does nothing on a CPU."""
        import torch

        if self.device == "cpu":
            return
        cuda: Any = torch.cuda  # its streams have no annotations
        with torch.cuda.device(self.device):
            side = cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(CAPTURE_WARM_UPS):
                    self.learn(images, labels)
            torch.cuda.current_stream().wait_stream(side)
            graph = cuda.CUDAGraph()
            # Named, because torch's own capture stream stays on the GPU of the process's first capture.
            with torch.cuda.graph(graph, stream=side):
                self._loss = self.learn(images, labels)
        self._replay = graph.replay

    def replay(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Run the captured step; run it eagerly if nothing was captured."""
        if self._replay is None:
            return self.learn(images, labels)
        self._replay()
        loss: torch.Tensor = self._loss
        return loss

    def restart(self) -> None:
        """Restore weights and optimiser in place, because a graph refers to their addresses."""
        import torch

        with torch.no_grad():
            for parameter, start in zip(self.parameters, self._start, strict=True):
                parameter.copy_(start)
                for each in self._adam.state.get(parameter, {}).values():  # both moments and the step counter
                    each.zero_()

    def flat(self) -> torch.Tensor:
        """Return all parameters as one vector."""
        import torch

        return torch.cat([parameter.detach().reshape(-1) for parameter in self.parameters])


Progress = Callable[[int, int, str], None]
"""Called with (finished steps, all steps, note)."""

NOTE_EVERY = 100
"""Steps between two readings of the running loss, each of which synchronises."""


def fit(
    network: Network,
    data: Digits,
    epochs: int,
    batch: int,
    progress: Progress,
    epoch_over: Callable[[int, float, int], None],
) -> None:
    """Train on shuffled batches from host memory, in the same order on every device.

    `progress` is called after every step, `epoch_over(epoch, mean loss, steps)` after every epoch.
    """
    import torch

    generator = torch.Generator().manual_seed(1)
    count = len(data.train_labels)
    steps = -(-count // batch)
    note = ""
    for epoch in range(1, epochs + 1):
        order = torch.randperm(count, generator=generator)
        loss_sum = torch.zeros((), device=network.device)
        correct_count = torch.zeros((), device=network.device)
        for step, chosen in enumerate(torch.split(order, batch), 1):
            images = data.train_images[chosen].to(network.device)
            labels = data.train_labels[chosen].to(network.device)
            loss, logits = network.learn_with_logits(images, labels)
            loss_sum += loss * len(chosen)
            correct_count += (logits.argmax(1) == labels).sum()
            if step % NOTE_EVERY == 0 or step == steps:
                seen = min(step * batch, count)
                note = f", loss {loss_sum.item() / seen:.3f}, accuracy {correct_count.item() / seen:.1%}"
            progress((epoch - 1) * steps + step, epochs * steps, f"epoch {epoch} of {epochs}{note}")
        epoch_over(epoch, loss_sum.item() / count, steps)


def evaluate(network: Network, data: Digits, batch: int) -> tuple[float, float]:
    """Return (mean loss, accuracy) on the test images, which are copied from the host."""
    import torch
    from torch.nn.functional import cross_entropy

    loss_sum = torch.zeros((), device=network.device)
    correct_count = torch.zeros((), device=network.device)
    with torch.no_grad():
        for images, labels in zip(
            torch.split(data.test_images, batch), torch.split(data.test_labels, batch), strict=True
        ):
            wanted = labels.to(network.device)
            logits = network.forward(images.to(network.device), dropout=False)
            loss_sum += cross_entropy(logits, wanted, reduction="sum")
            correct_count += (logits.argmax(1) == wanted).sum()
    count = len(data.test_labels)
    return loss_sum.item() / count, correct_count.item() / count
