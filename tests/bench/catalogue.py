"""Times of the catalogue's work: CPU against `torch.utils.benchmark`, GPU against NVBench, in the same process."""

from functools import partial

from tests.bench.agreement import HEADER, KNOWN_PCT, PROMISED, cpu_row, loaded, nvbench_rows
from tests.helpers.bench import nvbench
from tests.helpers.bench.figures import record
from tests.helpers.bench.ratios import cap_seconds, range_text, side_by_side, table

from cpugpu_tui.agent.main import facts, make_machine
from cpugpu_tui.model import Case, Plan
from cpugpu_tui.workloads import find

COMPARED = {
    "conv2d": (32, 256),
    "attention": (256, 2048),
    "fft": (64, 4096),
    "softmax": (512, 16384),
    "sort": (100_000, 4_000_000),
    "batched-solve": (512, 32768),
}
"""Workload → sizes."""

CASES = tuple(Case(name, n, variant=find(name).variants()[0]) for name, sizes in COMPARED.items() for n in sizes)


def main() -> None:
    """Print the tables of CPU and GPU."""
    machine = make_machine(Plan("catalogue", (), ("auto",)), facts(simulated=False))
    cap_s = cap_seconds(240.0) / len(machine.devices) / len(CASES)
    with_cap = partial(side_by_side, half_width_pct=KNOWN_PCT, cap_s=cap_s)
    if len(machine.devices) > 1:  # first, because no other machine can tell
        subjects = [loaded(machine, machine.devices[1].name, case) for case in CASES]
        table(f"{machine.devices[1].label}, against NVBench (cold)", HEADER, nvbench_rows(subjects, cap_s))
        if nvbench.is_installed():
            record(
                "GPU time against NVBench: the same work, kernels of 50 µs and more", range_text(PROMISED["NVBench"])
            )
    else:
        print(f"\nWithout a GPU table: {machine.no_gpu}")
    table("CPU, against torch.utils.benchmark.Timer", HEADER, (cpu_row(machine, case, with_cap) for case in CASES))
    record(
        "CPU latency against `torch.utils.benchmark`: conv2d, attention, fft, softmax, sort, batched-solve",
        range_text(PROMISED["Timer.timeit"]),
    )


if __name__ == "__main__":
    main()
