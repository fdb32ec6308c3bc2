"""The page of one GPU: all that is known of it, and how a person gets there."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from tests.helpers.app.fake_run import FakeBackend, new_app, opened, settled
from tests.helpers.app.machine_readings import PROCESSES, gpu, idle, lost, mig, moving, reading, state, sweep, text_of
from tests.helpers.golden import GoldenWords
from textual.pilot import Pilot

from cpugpu_tui.machine.nvml.values import KEYS
from cpugpu_tui.machine.text import REASONS
from cpugpu_tui.model import Device, GpuProcess, GpuTelemetry, Reading, TelemetryRead
from cpugpu_tui.telemetry.sampler import aged
from cpugpu_tui.ui.glyphs import ASCII, UNICODE
from cpugpu_tui.ui.panes.lines import Lines, plain, width_of
from cpugpu_tui.ui.panes.telemetry.facts import BUSY_SWEEPS
from cpugpu_tui.ui.panes.telemetry.wording import GPU
from cpugpu_tui.ui.screens.gpu import GPM, GpuScreen, gpu_lines, host_lines
from cpugpu_tui.ui.screens.main import MainScreen

WIDTHS = (76, 116, 196)


def page_of(seen: GpuTelemetry, width: int = 76, devices: tuple[Device, ...] = (), sweeps: int = 3, **more: Any) -> str:
    return text_of(gpu_lines(seen, state(*[sweep(seen, **more)] * sweeps), devices, width, UNICODE))


def row_of(text: str, label: str) -> str:
    return next(line for line in text.splitlines() if line.strip().startswith(label))


# ------------------------------------------------------------------ what the page says


@pytest.mark.parametrize("width", WIDTHS)
def test_every_key_is_there_with_its_number_and_unit(width: int) -> None:
    text = page_of(gpu(), width)
    for key in KEYS:
        assert GPU[key].label in text, key
    for wanted in ("698 W", "1575 MHz", "0.6 GiB", "4.20 GJ", "P0", "0x4", "1.2 GB/s", "300 MB/s", "58 C"):
        assert wanted in text


def test_every_key_without_a_number_has_its_reason_in_words() -> None:
    for reason, words in REASONS.items():
        text = page_of(gpu(values={key: Reading(None, reason) for key in KEYS}, throttle=()))
        named = len(GPM) if reason == "not-asked" else 0  # these say what does ask for them
        assert text.count(f"– {words}") == len(KEYS) - named


def test_age_is_told_in_words_and_dimmed() -> None:
    old = gpu(values={"power_mw": reading("power_mw", age_s=12.0), "energy_mj": reading("energy_mj", age_s=9.0)})
    lines = gpu_lines(old, state(sweep(old)), (), 76, UNICODE)
    text = text_of(lines)
    assert "12 s old" in row_of(text, "power now")
    assert "now" in row_of(text, "SM clock")
    assert "< 6 s" in row_of(text, "power limit")
    assert "9 s old" in row_of(text, "energy since"), "late, but not yet old"
    assert {role for line in lines for words, role in line if "12 s old" in words} == {"stale"}
    assert {role for line in lines for words, role in line if "9 s old" in words} == {"muted"}


def test_a_history_stands_beside_its_number_with_the_end_of_its_range() -> None:
    text = page_of(gpu(), sweeps=40)
    assert row_of(text, "power now").endswith("700 W")
    assert row_of(text, "GPU ").endswith("87 C")
    assert row_of(text, "PCIe, GPU to host").endswith("63 GB/s")
    assert "to " not in row_of(text, "energy since"), "a counter has no range"


def test_remarks_say_what_to_do_and_an_idle_gpu_has_none(words: GoldenWords) -> None:
    seen = gpu(values={"pcie_generation": 1.0, "ecc_uncorrected_count": 2.0}, throttle=("power-capped", "power-brake"),
               persistence=False)  # fmt: skip
    text = page_of(seen, 116, sweeps=BUSY_SWEEPS + 1)
    remarks = [" ".join(line.split()[:2]) for line in text.splitlines() if line.startswith(("!", "▼"))]
    assert remarks == ["!! power-brake:", "▼ power-capped", "! PCIe", "!! ECC", "! persistence"]
    words(text.split("\n\n")[0])
    assert "!" not in page_of(idle(), 116)


def test_the_whole_identity_stands_there_and_how_torchs_number_comes_to_be_known(words: GoldenWords) -> None:
    seen = gpu(3)
    devices = (Device("cuda:0", "NVIDIA H200", seen.uuid),)
    full = "NVML 3 ↔ GPU-3234abcd-1111-2222-3333-444455556666 ↔ 0000:07:00.0"
    assert f"cuda:0 ↔ {full}" in page_of(seen, devices=devices)
    for page in (page_of(seen), page_of(gpu(1), devices=devices)):
        words(line for line in page.splitlines() if line.startswith("torch's number"))


def test_processes_are_told_in_full() -> None:
    long = replace(PROCESSES[0], command="python " + "argument " * 12 + "end")
    text = page_of(gpu(processes=(long, *PROCESSES[1:])))
    assert row_of(text, "99999").split() == ["99999", *"––––", "(outside", "namespace)"]
    assert "memory: not reported by the driver" in " ".join(text.split())
    assert "12.0 GiB" in row_of(text, "4242")
    assert "".join((long.command or "").split()) in "".join(text.split())
    assert "(ours)" in row_of(text, "77 ")
    assert page_of(gpu(processes=None)).endswith("cannot be listed")


def test_slices_are_told_with_their_names_for_torch(words: GoldenWords) -> None:
    slices = mig()
    text = page_of(slices, devices=(Device("cuda:0", "H200 MIG", slices.instances[1].uuid),))
    assert "cuda:0 ↔" in row_of(text, "cuda:0")
    assert "MIG-1bcd0000-1111-2222-3333-444455556666" in text
    words(line for line in text.splitlines() if "MIG: " in line or "MIG 1 of" in line)
    assert "torch's number" not in text


def test_the_whole_name_of_a_slice_and_the_age_of_its_memory_stand_there() -> None:
    board = mig()
    named = replace(board.instances[0], name="H200 of another name MIG 3g.71gb+me.all")
    (stale,) = aged((replace(board, instances=(named,)),), 12.0)
    assert row_of(page_of(stale, 116), "MIG 0 ").strip() == f"MIG 0 {named.name}  2.1/17.5 GiB  12 s old"
    assert row_of(page_of(board), "MIG 0 ").split()[2:] == ["1g.18gb", "2.1/17.5", "GiB", "now"]


def test_a_label_never_touches_what_stands_beside_it() -> None:
    for reason in REASONS:
        text = page_of(gpu(values={key: Reading(None, reason) for key in KEYS}), 76)
        assert f"{GPU['energy_mj'].label} " in text
        assert not re.search(r"\w–", text), reason


def test_what_is_said_of_an_idle_gpu_does_not_contradict_the_numbers_below(words: GoldenWords) -> None:
    """The bit is of this moment, kernel-active of the second before it, and an H200 keeps its clock at idle."""
    text = page_of(idle(kernel_active_pct=37.0, sm_clock_mhz=1980.0), 116)
    words(line for line in text.splitlines() if line.startswith("idle"))
    assert "clock is low" not in text


def test_a_reason_without_a_name_and_a_reserve_within_used_are_explained(words: GoldenWords) -> None:
    seen = gpu(values={"memory_reserved_bytes": Reading(None, "in-used"), "throttle_bits": float(0x400)},
               throttle=("unknown 0x400",))  # fmt: skip
    text = page_of(seen, 116)
    words(line for line in text.splitlines() if "0x400:" in line or "reserve" in line)
    assert "counted as used" in row_of(text, "reserved by")
    assert "used memory" not in page_of(gpu(), 116)


def test_what_the_app_does_not_ask_for_names_what_does() -> None:
    assert page_of(gpu()).count("telemetry --gpm") == 3


def test_a_process_of_a_slice_stands_below_it_and_not_once_more() -> None:
    slices = mig()
    stranger = GpuProcess(4242, 1 << 30, "ann", "python train.py", own=False)
    first = replace(slices.instances[0], processes=(stranger,))
    seen = replace(slices, processes=(stranger,), instances=(first, slices.instances[1]))  # as older traces have it
    text = page_of(seen)
    assert text.count("4242") == 1
    assert text.index("MIG 0") < text.index("4242") < text.index("MIG 1")
    assert "outside the instances" in text


@pytest.mark.parametrize("width", [56, *WIDTHS])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_nothing_is_wider_than_the_page(width: int, glyphs: Any) -> None:
    for seen in (gpu(processes=PROCESSES), mig(), lost(), idle()):
        lines = gpu_lines(seen, state(sweep(seen)), (), width, glyphs)
        assert [plain(line) for line in lines if width_of(line) > width] == []
        assert glyphs is UNICODE or text_of(lines).isascii()


def test_at_200x60_a_gpu_fits_without_scrolling() -> None:
    assert len(page_of(gpu(processes=PROCESSES), 196).splitlines()) <= 56


def test_the_host_has_a_page_and_the_drivers_problem_stands_on_it() -> None:
    text = text_of(host_lines(state(sweep(problem="No NVIDIA driver found. CPU results only.")), 76, UNICODE))
    for wanted in ("! No NVIDIA driver found.", "28.9 GiB", "2400 MHz", "cores allowed (cgroup)"):
        assert wanted in text


# ------------------------------------------------------------------ how a person gets there


def shown(pilot: Pilot[Any], part: str = "#page-text") -> str:
    return text_of(list(pilot.app.screen.query_one(part, Lines).lines))


async def zoomed(pilot: Pilot[Any]) -> None:
    await pilot.press("tab", "z")
    await settled(pilot, lambda: isinstance(pilot.app.screen, GpuScreen) and bool(shown(pilot)))


def app_with(read: TelemetryRead) -> Any:
    return new_app(backend=FakeBackend(telemetry=read))


async def test_z_opens_all_gpus_tab_each_of_them_and_z_or_esc_go_back() -> None:
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
            assert isinstance(pilot.app.screen, MainScreen)
            assert pilot.app.screen.focused_pane == "telemetry"


async def test_the_gpu_that_the_run_uses_has_torchs_name_on_every_page() -> None:
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


async def test_the_page_is_live_and_a_gpu_that_goes_leaves_a_sentence() -> None:
    app = app_with(moving(0, 2))
    async with opened(app) as pilot:
        await zoomed(pilot)
        await pilot.press("tab", "tab")
        before = row_of(shown(pilot), "SM clock ")
        app.backend.read(moving(1, 2))
        await settled(pilot, lambda: row_of(shown(pilot), "SM clock ") != before)
        app.backend.read(sweep(gpu(0)))
        await settled(pilot, lambda: shown(pilot).startswith("GPU 1 ") and "\n" not in shown(pilot))


async def test_without_a_gpu_the_page_is_the_hosts() -> None:
    async with opened(app_with(sweep(problem="No NVIDIA driver found. CPU results only."))) as pilot:
        await zoomed(pilot)
        assert "▸host" in shown(pilot, "#page-title")
        assert "NVIDIA driver" in shown(pilot)


async def test_a_long_page_scrolls_by_keys_and_another_gpu_begins_at_its_top() -> None:
    async with opened(app_with(moving(0, 2)), size=(80, 24)) as pilot:
        await zoomed(pilot)
        scroll = pilot.app.screen.query_one("#page")
        await pilot.press("tab", "G")
        assert scroll.scroll_y > 20
        await pilot.press("tab")
        assert scroll.scroll_y == 0


async def test_lines_that_say_the_same_are_not_painted(monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_with(moving(0, 2))
    async with opened(app) as pilot:
        await zoomed(pilot)
        painted: list[Any] = []
        monkeypatch.setattr(Lines, "refresh", lambda self, *regions, **kwargs: painted.append((self.id, regions)))
        app.change(telemetry=app.state.telemetry)
        assert painted == []
