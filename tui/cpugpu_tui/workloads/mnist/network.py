"""The network: weights, optimiser, training step (eager or captured), whole trainings, evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from cpugpu_tui.workloads.mnist.data import Digits

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
        return self.learn_and_answer(images, labels, dropout=dropout)[0]

    def learn_and_answer(
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
                for moment in self._adam.state.get(parameter, {}).values():
                    moment.zero_()

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
        losses = torch.zeros((), device=network.device)
        right = torch.zeros((), device=network.device)
        for step, chosen in enumerate(torch.split(order, batch), 1):
            images = data.train_images[chosen].to(network.device)
            labels = data.train_labels[chosen].to(network.device)
            loss, logits = network.learn_and_answer(images, labels)
            losses += loss * len(chosen)
            right += (logits.argmax(1) == labels).sum()
            if step % NOTE_EVERY == 0 or step == steps:
                seen = min(step * batch, count)
                note = f", loss {losses.item() / seen:.3f}, accuracy {right.item() / seen:.1%}"
            progress((epoch - 1) * steps + step, epochs * steps, f"epoch {epoch} of {epochs}{note}")
        epoch_over(epoch, losses.item() / count, steps)


def evaluate(network: Network, data: Digits, batch: int) -> tuple[float, float]:
    """Return (mean loss, accuracy) on the test images, which are copied from the host."""
    import torch
    from torch.nn.functional import cross_entropy

    losses = torch.zeros((), device=network.device)
    right = torch.zeros((), device=network.device)
    with torch.no_grad():
        for images, labels in zip(
            torch.split(data.test_images, batch), torch.split(data.test_labels, batch), strict=True
        ):
            wanted = labels.to(network.device)
            logits = network.forward(images.to(network.device), dropout=False)
            losses += cross_entropy(logits, wanted, reduction="sum")
            right += (logits.argmax(1) == wanted).sum()
    count = len(data.test_labels)
    return losses.item() / count, right.item() / count
