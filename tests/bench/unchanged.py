"""Code that nobody wrote for this purpose, timed unchanged by `time` and by hand: the words must be the same.

The list was fixed before the first run. UNCHANGED_CODE names the folder with checkouts of `examples` (pytorch),
`from-python-to-numpy` (rougier) and `nanoGPT` (karpathy); without it, their lines are skipped.
"""

import csv
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from time import perf_counter

from tests.helpers.bench.figures import record
from tests.helpers.bench.ratios import table

SAME = 1.05
"""Within this factor, times by hand name no winner."""

CALL_LIMIT_S = 240
PAIRS = 5
"""Of whole commands: one of the list takes 15 s for both devices."""

CHECKOUTS = "UNCHANGED_CODE"
HEADER = ("code", "version", "size", "CPU", "GPU", "word", "by hand: CPU", "GPU", "word", "same")


@dataclass(frozen=True)
class Item:
    """A piece of code: an expression, a function with `lets`, or a command."""

    package: str
    statement: str
    setup: str = ""
    sizes: tuple[int, ...] = ()
    lets: tuple[str, ...] = ()
    """Arguments of a function, as NAME=CODE."""
    folder: str = ""
    """Checkout in UNCHANGED_CODE that holds the code."""

    @property
    def is_command(self) -> bool:
        """Return whether whole processes are timed."""
        return self.statement.startswith("python ")

    def words(self) -> list[str]:
        """Return the arguments of `cpugpu-tui time`."""
        if self.is_command:
            return ["--rounds", str(PAIRS), "--", sys.executable, *shlex.split(self.statement)[1:]]
        sizes = ["--n", ",".join(map(str, self.sizes))] if self.sizes else []
        setup = ["--setup", self.setup] if self.setup else []
        return [self.statement, *setup, *sizes, *(word for each in self.lets for word in ("--let", each))]

    def by_hand(self) -> dict[str, object]:
        """Return setup and statement for the timing by hand."""
        if ":" not in self.statement or "(" in self.statement:
            return {"setup": self.setup, "statement": self.statement, "sizes": self.sizes}
        module, _, name = self.statement.partition(":")
        arguments = dict(each.split("=", 1) for each in self.lets)
        lines = [f"from {Path(module).stem if module.endswith('.py') else module} import {name}"]
        lines += [f"{key} = {value}" for key, value in arguments.items()]
        call = ", ".join(f"{key}={key}" for key in arguments) if arguments else "n" if self.sizes else ""
        return {"setup": "\n".join(lines), "statement": f"{name}({call})", "sizes": self.sizes or (1,)}


BERT = """from transformers import BertConfig, BertModel
m = BertModel(BertConfig(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024)).eval()
i = torch.randint(0, 30000, (1, n))"""
GPT2 = """from transformers import GPT2Config, GPT2LMHeadModel
m = GPT2LMHeadModel(GPT2Config(n_embd=256, n_layer=4, n_head=4)).eval()
i = torch.randint(0, 50000, (n, 16))"""
NANO_GPT = """import sys; sys.path.insert(0, '.')
from model import GPT, GPTConfig
m = GPT(GPTConfig(n_layer=4, n_head=4, n_embd=256, block_size=1024)).eval()
i = torch.randint(0, 50000, (1, n))"""
GRAPH = """from torch_geometric.nn import GCNConv
m = GCNConv(64, 64); x = torch.rand(n, 64); e = torch.randint(0, n, (2, 10 * n))"""
BOXES = """from torchvision.ops import nms
b = torch.rand(n, 4); b[:, 2:] += b[:, :2]; s = torch.rand(n)"""
STYLE = """import sys; sys.path.insert(0, 'fast_neural_style/neural_style')
from transformer_net import TransformerNet
m = TransformerNet().eval(); x = torch.rand(1, 3, n, n)"""
RBF = "from gpytorch.kernels import RBFKernel\nk = RBFKernel(); x = torch.rand(n, 8)"
ODE = """from torchdiffeq import odeint
m = torch.nn.Linear(n, n); f = lambda t, y: torch.tanh(m(y))
y = torch.rand(64, n); t = torch.linspace(0, 1, 5)"""
SOBOL = "from botorch.utils.sampling import draw_sobol_samples\nb = torch.stack([torch.zeros(8), torch.ones(8)])"
ENCODER = "m = torch.nn.TransformerEncoderLayer(256, 4, batch_first=True).eval(); x = torch.rand(8, n, 256)"


def timm_model(name: str) -> str:
    """Return the setup of a model of timm."""
    return f"import timm\nm = timm.create_model('{name}').eval(); x = torch.rand(n, 3, 224, 224)"


def vision_model(name: str) -> str:
    """Return the setup of a model of torchvision."""
    return f"import torchvision\nm = torchvision.models.{name}().eval(); x = torch.rand(n, 3, 224, 224)"


ITEMS = (
    Item("torchvision", "m(x)", vision_model("resnet18"), (1, 16)),
    Item("torchvision", "m(x)", vision_model("mobilenet_v3_small"), (1, 32)),
    Item("torchvision", "torchvision.ops:box_iou", lets=("boxes1=torch.rand(n, 4)", "boxes2=torch.rand(n, 4)"),
         sizes=(10, 4000)),
    Item("torchvision", "nms(b, s, 0.5)", BOXES, (10, 5000)),
    Item(
        "torchvision", "gaussian_blur(x, [15, 15])",
        "from torchvision.transforms.v2.functional import gaussian_blur\nx = torch.rand(3, n, n)", (64, 2048),
    ),
    Item("transformers", "m(i).last_hidden_state", BERT, (16, 512)),
    Item("transformers", "m.generate(i, max_new_tokens=8, do_sample=False, pad_token_id=0)", GPT2, (1, 64)),
    Item("timm", "m(x)", timm_model("vit_tiny_patch16_224"), (1, 32)),
    Item("timm", "m(x)", timm_model("convnext_atto"), (1, 32)),
    Item(
        "sentence-transformers", "sentence_transformers.util:cos_sim", "", (10, 5000),
        ("a=torch.rand(n,384)", "b=torch.rand(n,384)"),
    ),
    Item(
        "torchaudio", "m(x)", "import torchaudio\nm = torchaudio.transforms.MelSpectrogram(); x = torch.rand(n)",
        (8000, 4_800_000),
    ),
    Item(
        "torchmetrics", "torchmetrics.functional.image:structural_similarity_index_measure", "", (32, 1024),
        ("preds=torch.rand(1,3,n,n)", "target=torch.rand(1,3,n,n)"),
    ),
    Item("torch-geometric", "m(x, e)", GRAPH, (100, 100_000)),
    Item("gpytorch", "k(x).to_dense()", RBF, (50, 4000)),
    Item("torchdiffeq", "odeint(f, y, t)", ODE, (16, 1024)),
    Item("botorch", "draw_sobol_samples(b, n, 1)", SOBOL, (64, 65_536)),
    Item("torch", "m(x)", ENCODER, (16, 512)),
    Item("einops", "rearrange(x, 'a b -> b a')", "from einops import rearrange\nx = torch.rand(n, n)", (64, 2048)),
    Item(
        "scikit-learn", "euclidean_distances(a)",
        "from sklearn.metrics.pairwise import euclidean_distances\na = np.random.rand(n, 16)", (1000,),
    ),
    Item(
        "scikit-learn", "KMeans(4, n_init=1, random_state=0).fit(a).cluster_centers_",
        "from sklearn.cluster import KMeans\na = np.random.rand(n, 8)", (1000,),
    ),
    Item(
        "scipy", "gaussian_filter(a, 3)", "from scipy.ndimage import gaussian_filter\na = np.random.rand(n, n)", (512,),
    ),
    Item("scipy", "fftconvolve(a, a)", "from scipy.signal import fftconvolve\na = np.random.rand(n)", (100_000,)),
    Item(
        "scikit-image", "denoise_tv_chambolle(a)",
        "from skimage.restoration import denoise_tv_chambolle\na = np.random.rand(n, n)", (128,),
    ),
    Item(
        "from-python-to-numpy", "code/mandelbrot_numpy_1.py:mandelbrot", "", (200,),
        ("xmin=-2.25", "xmax=0.75", "ymin=-1.25", "ymax=1.25", "xn=n", "yn=n", "maxiter=20"), "from-python-to-numpy",
    ),
    Item("from-python-to-numpy", "code/random_walk.py:random_walk_fastest", "", (1000,), (), "from-python-to-numpy"),
    Item("nanoGPT", "m(i)[0]", NANO_GPT, (8, 1024), (), "nanoGPT"),
    Item("pytorch/examples", "m(x)", STYLE, (32, 512), (), "examples"),
    Item("pytorch/examples", "python regression/main.py", folder="examples"),
    Item("pytorch/examples", "python time_sequence_prediction/generate_sine_wave.py", folder="examples"),
    Item(
        "pytorch/examples", "python dcgan/main.py --dataset fake --dry-run --accel --workers 0 --outf /tmp",
        folder="examples",
    ),
    Item(
        "nanoGPT", "python bench.py --device={device} --real_data=False --compile=False --batch_size=1 --block_size=64 "
        "--dtype=float32", folder="nanoGPT",
    ),
)  # fmt: skip


def main() -> None:
    """Print a line for each piece of code and size. BENCH_ITEMS=3:9 takes a part of the list."""
    begin, _, end = os.environ.get("BENCH_ITEMS", "").partition(":")
    items = ITEMS[int(begin or 0) : int(end) if end else None]
    found = [row for item in items for row in rows(item)]
    table("Unchanged code: `time` against a timing by hand", HEADER, found)
    words = [(row[0], row[HEADER.index("word")], row[-2]) for row in found]
    named = [each for each in words if {each[1], each[2]} <= {"CPU", "GPU"}]
    wrong = {code for code, ours, by_hand in named if ours != by_hand}
    record(
        "Functions and scripts of other packages whose winner is not that of a timing by hand",
        f"{len(wrong)} of {len({code for code, _, _ in named})}",
    )


def rows(item: Item) -> Iterator[tuple[str, ...]]:
    """Return the lines of one piece of code."""
    folder = Path(os.environ.get(CHECKOUTS, "/nonexistent"), item.folder) if item.folder else Path.cwd()
    label = f"{item.package}: {label_of(item)}"
    if not folder.is_dir():
        yield (label, "-", "-", f"skipped: {CHECKOUTS} is not set", *[""] * 6)
        return
    found, refusal = timed(item, folder)
    hand = command_by_hand(item, folder) if item.is_command else code_by_hand(item, folder)
    if "error" in hand:
        yield (label, release(item), "-", "", "", refusal, f"error: {hand['error']}", "", "", "")
        return
    for size, (cpu_s, gpu_s, kernels) in hand.items():
        by_hand = "never used the GPU" if kernels == 0 else word_of(cpu_s / gpu_s)
        word, times = refusal, ("", "")
        if size in found:
            ours_cpu_s, ours_gpu_s, word = found[size]
            times = (f"{ours_cpu_s * 1e3:.4g} ms", f"{ours_gpu_s * 1e3:.4g} ms")
        is_same = word == by_hand or (kernels == 0 and ("ever used the GPU" in word or "nothing was computed" in word))
        yield (
            label, release(item), size, *times, word, f"{cpu_s * 1e3:.4g} ms", f"{gpu_s * 1e3:.4g} ms", by_hand,
            "yes" if is_same else "NO",
        )  # fmt: skip


def label_of(item: Item) -> str:
    """Return what is called, in few words."""
    last = item.setup.splitlines()[-1].split(";")[0] if item.statement.startswith("m(x") else ""
    return f"{item.statement[:70]} {last[:60]}".strip()


def release(item: Item) -> str:
    """Return the installed version."""
    try:
        return version(item.package)
    except PackageNotFoundError:
        return "checkout"


def word_of(ratio: float) -> str:
    """Return who is faster by hand."""
    return "tie" if 1 / SAME < ratio < SAME else "GPU" if ratio > 1 else "CPU"


def timed(item: Item, folder: Path) -> tuple[dict[str, tuple[float, float, str]], str]:
    """Return size → CPU time, GPU time (s) and word of `cpugpu-tui time`, and what it printed if it refused."""
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary, "out.csv")
        words = item.words()
        at = words.index("--") if "--" in words else len(words)
        command = [sys.executable, "-m", "cpugpu_tui", "time", *words[:at], "--no-save", "--export", str(out)]
        try:
            done = subprocess.run(
                [*command, *words[at:]], capture_output=True, text=True, timeout=CALL_LIMIT_S, cwd=folder, check=False
            )
        except subprocess.TimeoutExpired:
            return {}, f"not finished in {CALL_LIMIT_S} s"
        lines = list(csv.DictReader(out.open())) if out.exists() else []
    found: dict[str, tuple[float, float, str]] = {}
    cpu_s = {each["size"]: float(each["median_ns"]) / 1e9 for each in lines if is_latency(each, on_cpu=True)}
    for each in lines:
        if is_latency(each, on_cpu=False) and each["status"] == "ok" and each["size"] in cpu_s:
            found[each["size"]] = (cpu_s[each["size"]], float(each["median_ns"]) / 1e9, each["verdict"] or "not judged")
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    whys = ("refused:", "error:", "mismatch:", "unsupported:", "never used", "Not timed")
    hint = next((line for line in said if any(why in line for why in whys)), said[-1] if said else "")
    return found, f"exit {done.returncode}: {' '.join(hint.split())}"


def is_latency(line: dict[str, str], *, on_cpu: bool) -> bool:
    """Return whether a line of the export is the latency on this kind of device."""
    return line["metric"] == "latency" and (line["device"] == "cpu") == on_cpu and bool(line["median_ns"])


def code_by_hand(item: Item, folder: Path) -> dict[str, tuple[float, float, int]]:
    """Return size → CPU time, GPU time (s) and kernels, measured in a process without our code."""
    script = Path(__file__).parent.parent / "helpers" / "bench" / "by_hand.py"
    paths = os.pathsep.join([str(folder), str(folder / "code"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, script], input=json.dumps([item.by_hand()]), capture_output=True, text=True,
        timeout=CALL_LIMIT_S, cwd=folder, env={**os.environ, "PYTHONPATH": paths}, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    return dict(json.loads(lines[-1])) if lines else {"error": done.stderr[-200:]}  # type: ignore[dict-item]


def command_by_hand(item: Item, folder: Path) -> dict[str, tuple[float, float, int]]:
    """Return the median time of three processes on each device, after one that is not counted."""
    uses_gpu = 1 if "device" in item.statement or "accel" in item.statement else 0
    times_s: dict[str, list[float]] = {"cpu": [], "cuda:0": []}
    for _ in range(4):
        for device, found_s in times_s.items():
            words = [sys.executable, *shlex.split(item.statement.replace("{device}", device))[1:]]
            hidden = {} if "{device}" in item.statement or device != "cpu" else {"CUDA_VISIBLE_DEVICES": ""}
            begin_s = perf_counter()
            subprocess.run(words, cwd=folder, env={**os.environ, **hidden}, capture_output=True, timeout=60, check=True)
            found_s.append(perf_counter() - begin_s)
    return {"1": (median(times_s["cpu"][1:]), median(times_s["cuda:0"][1:]), uses_gpu)}
