"""The page of one GPU: all that is known of it, and how a person gets there."""

import re
from dataclasses import replace

import pytest
from tests.helpers.app.fake_run import FakeBackend, new_app, opened, settled
from tests.helpers.app.machine_readings import (
    PROCESSES,
    gpu,
    idle,
    lost,
    marked,
    mig,
    moving,
    reading,
    state,
    sweep,
    text_of,
)
from tests.helpers.golden import assert_golden, paragraphs

from cpugpu_tui.machine.nvml.values import KEYS
from cpugpu_tui.machine.text import REASONS
from cpugpu_tui.model import Device, GpuProcess, Reading
from cpugpu_tui.telemetry.sampler import aged
from cpugpu_tui.ui.glyphs import ASCII, UNICODE
from cpugpu_tui.ui.panes.lines import Lines, plain, width_of
from cpugpu_tui.ui.panes.telemetry.wording import GPU
from cpugpu_tui.ui.screens.gpu import GPM, GpuScreen, gpu_lines, host_lines

WIDTHS = (76, 116, 196)


def page_of(seen, width=76):
    return text_of(gpu_lines(seen, state(*[sweep(seen)] * 3), (), width, UNICODE))


def row_of(text, label):
    return next(line for line in text.splitlines() if line.strip().startswith(label))


# ------------------------------------------------------------------ what the page says


def test_every_key_is_there_and_one_without_a_number_has_its_reason_in_words():
    assert all(GPU[key].label in page_of(gpu(), width) for key in KEYS for width in WIDTHS)
    for reason, words in REASONS.items():
        text = page_of(gpu(values={key: Reading(None, reason) for key in KEYS}, throttle=()))
        named = len(GPM) if reason == "not-asked" else 0  # these say what does ask for them
        assert text.count(f"– {words}") == len(KEYS) - named
        assert f"{GPU['energy_mj'].label} " in text
        assert not re.search(r"\w–", text), reason


SLICES = mig()
STRANGER = GpuProcess(4242, 1 << 30, "ann", "python train.py", own=False)
ON_A_SLICE = replace(SLICES, processes=(STRANGER,), instances=(  # as older traces have it
    replace(SLICES.instances[0], processes=(STRANGER,)), SLICES.instances[1],
))  # fmt: skip
(STALE_SLICE,) = aged((replace(SLICES, instances=(
    replace(SLICES.instances[0], name="H200 of another name MIG 3g.71gb+me.all"),
)),), 12.0)  # fmt: skip
LONG = replace(PROCESSES[0], command="python " + "argument " * 12 + "end")
DEVICES = (Device("cuda:0", "NVIDIA H200", gpu(3).uuid), Device("cuda:1", "H200 MIG", SLICES.instances[1].uuid))
SPOILED = gpu(values={"pcie_generation": 1.0, "ecc_uncorrected_count": 2.0}, throttle=("power-capped", "power-brake"),
              persistence=False)  # fmt: skip
SEEN = {
    "before a run has found its devices": (gpu(3), ()),
    "used by the run": (gpu(3), DEVICES),
    "old, and late but not yet old": (gpu(values={key: reading(key, age_s=age_s) for key, age_s in
                                                  (("power_mw", 12.0), ("energy_mj", 9.0))}), DEVICES),
    "what spoils measurements": (SPOILED, DEVICES),
    # The bit is of this moment, kernel-active of the second before it, and an H200 keeps its clock at idle.
    "idle": (idle(kernel_active_pct=37.0, sm_clock_mhz=1980.0), DEVICES),
    "a reason without a name, a reserve within used": (gpu(
        values={"memory_reserved_bytes": Reading(None, "in-used"), "throttle_bits": float(0x400)},
        throttle=("unknown 0x400",)), DEVICES),
    "processes": (gpu(processes=(LONG, *PROCESSES[1:])), DEVICES),
    "processes that cannot be listed": (gpu(processes=None), DEVICES),
    "a process of a slice": (ON_A_SLICE, DEVICES),
    "a stale slice of another name": (STALE_SLICE, DEVICES),
}  # fmt: skip
"""What a GPU tells, and the devices of the run."""


def test_what_a_person_sees():
    """The whole page, then the lines of others that differ from it."""
    usual = {width: gpu_lines(gpu(), state(*[sweep(gpu())] * 40), DEVICES, width, UNICODE) for width in WIDTHS}
    told = {f"{width} columns": marked(lines) for width, lines in usual.items()}
    for name, (seen, devices) in SEEN.items():
        lines = marked(gpu_lines(seen, state(*[sweep(seen)] * 40), devices, 116, UNICODE)).splitlines()
        told[name] = "\n".join(line for line in lines if line not in marked(usual[116]).splitlines())
    host = host_lines(state(sweep(problem="No NVIDIA driver found. CPU results only.")), 76, UNICODE)
    assert_golden("frames/telemetry-page", paragraphs({**told, "the host": marked(host)}))


@pytest.mark.parametrize("width", [56, *WIDTHS])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_nothing_is_wider_than_the_page(width, glyphs):
    for seen in (gpu(processes=PROCESSES), mig(), lost(), idle()):
        lines = gpu_lines(seen, state(sweep(seen)), (), width, glyphs)
        assert [plain(line) for line in lines if width_of(line) > width] == []
        assert glyphs is UNICODE or text_of(lines).isascii()


def test_at_200x60_a_gpu_fits_without_scrolling():
    assert len(page_of(gpu(processes=PROCESSES), 196).splitlines()) <= 56


# ------------------------------------------------------------------ how a person gets there


def shown(pilot, part="#page-text"):
    return text_of(list(pilot.app.screen.query_one(part, Lines).lines))


async def zoomed(pilot):
    await pilot.press("tab", "z")
    await settled(pilot, lambda: isinstance(pilot.app.screen, GpuScreen) and bool(shown(pilot)))


def app_with(read):
    return new_app(backend=FakeBackend(telemetry=read))


async def test_z_opens_all_gpus_tab_each_of_them_and_z_or_esc_go_back():
    async with opened(app_with(moving(0, 3)), size=(80, 24)) as pilot:
        for back in ("z", "escape"):
            await pilot.press("tab", "z") if back == "z" else await pilot.press("z")
            await settled(pilot, lambda: isinstance(pilot.app.screen, GpuScreen) and bool(shown(pilot)))
            assert "▸all" in shown(pilot, "#page-title")
            assert all(f"GPU {index}" in shown(pilot) for index in range(3))
            await pilot.press("tab", "right")
            assert "▸GPU 1" in shown(pilot, "#page-title")
            assert "NVML 1" in shown(pilot)
            await pilot.press("right", "tab")
            assert "▸host" in shown(pilot, "#page-title")
            await pilot.press("tab", "shift+tab", "left")
            assert "▸GPU 2" in shown(pilot, "#page-title")
            await pilot.press(back)
            assert pilot.app.screen.focused_pane == "telemetry"


async def test_the_gpu_that_the_run_uses_has_torchs_name_on_every_page():
    used = replace(gpu(2), uuid="GPU-1")  # as fake_run's DEVICES
    app = app_with(sweep(gpu(0), used))
    async with opened(app) as pilot:
        await settled(pilot, lambda: app.state.agent_ready)
        await pilot.press("r")
        await settled(pilot, lambda: bool(app.state.run.devices))
        pilot.app.screen.query_one("#telemetry").focus()
        await pilot.press("z")
        await settled(pilot, lambda: isinstance(pilot.app.screen, GpuScreen) and bool(shown(pilot)))
        lines = shown(pilot).splitlines()
        assert lines[next(at for at, line in enumerate(lines) if line.startswith("GPU 2")) + 1].startswith("cuda:0")
        await pilot.press("shift+tab", "shift+tab")
        assert "NVML 2" in row_of(shown(pilot), "cuda:0")


async def test_the_page_is_live_and_a_gpu_that_goes_leaves_a_sentence():
    app = app_with(moving(0, 2))
    async with opened(app) as pilot:
        await zoomed(pilot)
        await pilot.press("tab", "tab")
        before = row_of(shown(pilot), "SM clock ")
        app.backend.read(moving(1, 2))
        await settled(pilot, lambda: row_of(shown(pilot), "SM clock ") != before)
        app.backend.read(sweep(gpu(0)))
        await settled(pilot, lambda: shown(pilot).startswith("GPU 1 ") and "\n" not in shown(pilot))


async def test_without_a_gpu_the_page_is_the_hosts():
    async with opened(app_with(sweep(problem="No NVIDIA driver found. CPU results only."))) as pilot:
        await zoomed(pilot)
        assert "▸host" in shown(pilot, "#page-title")
        assert "NVIDIA driver" in shown(pilot)


async def test_a_long_page_scrolls_by_keys_and_another_gpu_begins_at_its_top():
    async with opened(app_with(moving(0, 2)), size=(80, 24)) as pilot:
        await zoomed(pilot)
        scroll = pilot.app.screen.query_one("#page")
        await pilot.press("tab", "G")
        assert scroll.scroll_y > 20
        await pilot.press("tab")
        assert scroll.scroll_y == 0
