"""A workload file with every form of workload: plain, tuples, integers, complex, sparse, modules, own measures."""

import torch

from cpugpu_tui import Workload, workload

WIDTH = 1024


@workload
class Softmax(Workload):
    """Softmax of each of n rows of 1,024 normals."""

    name = "form-softmax"
    axis = "rows"
    sizes = (1, 16, 256)
    dtypes = ("float64", "float32", "bfloat16", "float16")

    def inputs(self, n, dtype, generator):
        return torch.randn(n, WIDTH, dtype=dtype, generator=generator)

    def step(self, x):
        return x.softmax(dim=1)

    def reference(self, variant, doubles):
        powers = doubles[0].exp()
        return powers / powers.sum(dim=1, keepdim=True)

    def flops(self, n):
        return 5.0 * n * WIDTH  # maximum, difference, exponential, sum, division

    def bytes_moved(self, n, itemsize_bytes):
        return 2.0 * n * WIDTH * itemsize_bytes


class Form(Workload):
    """A workload that defines no more than it must."""

    axis = "length"
    sizes = (64,)
    dtypes = ("float32",)


@workload
class Sort(Form):
    """Sorted numbers and where they were."""

    name = "form-sort"

    def inputs(self, n, dtype, generator):
        return torch.randn(n, dtype=dtype, generator=generator)

    def step(self, x):
        return x.sort()


@workload
class Fft(Form):
    """Spectrum of n complex numbers."""

    name = "form-fft"

    def inputs(self, n, dtype, generator):
        return torch.complex(*(torch.randn(n, dtype=dtype, generator=generator) for _ in range(2)))

    def step(self, x):
        return torch.fft.fft(x)


@workload
class Embedding(Form):
    """Rows of a table at n random places."""

    name = "form-embedding"
    axis = "batch"

    def inputs(self, n, dtype, generator):
        return torch.randn(1000, 16, dtype=dtype, generator=generator), torch.randint(1000, (n,), generator=generator)

    def step(self, table, places):
        return table[places]


@workload
class SparseMatmul(Form):
    """Product of a sparse matrix and a vector."""

    name = "form-sparse"

    def inputs(self, n, dtype, generator):
        dense = torch.randn(n, n, dtype=dtype, generator=generator)
        return dense.where(dense > 1.5, 0).to_sparse(), torch.randn(n, dtype=dtype, generator=generator)

    def step(self, matrix, x):
        return matrix @ x


@workload
class Perceptron(Form):
    """A network of two layers, given as a module, and its inputs in a dictionary."""

    name = "form-perceptron"
    axis = "batch"

    def inputs(self, n, dtype, generator):
        network = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
        return network.to(dtype), {"x": torch.randn(n, 32, dtype=dtype, generator=generator)}

    def step(self, network, batch):
        return network(batch["x"])


@workload
class Solve(Form):
    """Solution of n equations, of which the residual is checked."""

    name = "form-solve"
    axis = "n"

    def inputs(self, n, dtype, generator):
        return torch.randn(n, n, dtype=dtype, generator=generator), torch.randn(n, dtype=dtype, generator=generator)

    def step(self, a, b):
        return torch.linalg.solve(a, b)

    def error(self, variant, result, doubles):
        a, b = doubles
        (x,) = result
        return float((a @ x - b).norm() / (a.norm() * x.norm()))

    def tolerance(self, dtype):
        return 1e-5


@workload
class Random(Form):
    """Numbers drawn on the device, of which the mean is checked."""

    name = "form-random"
    sizes = (4096,)
    draws = True

    def inputs(self, n, dtype, generator):
        return n, dtype

    def place(self, variant, inputs, device):
        return *inputs, device

    def step(self, n, dtype, device):
        return torch.rand(n, dtype=dtype, device=device)

    def error(self, variant, result, doubles):
        (x,) = result
        return abs(float(x.mean()) - 0.5) * (12 * x.numel()) ** 0.5  # in standard deviations of the mean

    def tolerance(self, dtype):
        return 6.0
