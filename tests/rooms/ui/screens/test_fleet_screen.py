"""The fleet's screen: hosts live, why one is in trouble, the cases of one and of all, and how it is stopped."""

import queue
import sys
from contextlib import asynccontextmanager

import psutil
import pytest
from rich.cells import cell_len
from tests.helpers.app.fake_run import settled
from tests.helpers.app.pty_app import PtyApp
from tests.helpers.command_line import FAST, PATIENCE_S, Witness

from cpugpu_tui import model
from cpugpu_tui.config.hosts import hosts_of
from cpugpu_tui.model.quantities import size_text
from cpugpu_tui.session.fleet_running import Fleet, FleetPlan
from cpugpu_tui.session.fleet_state import CONNECTING, DONE, STOPPED, FleetState, HostChanged, Told
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.ui.app_state import FleetOptions
from cpugpu_tui.ui.fleet import FleetApp
from cpugpu_tui.ui.glyphs import UNICODE
from cpugpu_tui.ui.keys import COMMAND_BY_ID, DEFAULT_KEYMAP
from cpugpu_tui.ui.panes.lines import Lines, plain
from cpugpu_tui.ui.screens.fleet import FleetScreen, HostScreen, case_name, host_line, name_width
from cpugpu_tui.ui.screens.help import HelpScreen

PLAN = build_plan(PlanRequest(("matmul",), sizes="64,2048"))
LOST = HostChanged("unreachable", "The connection to gpu2 was lost.", "Run it again when the host answers.")


class ScriptedFleet(Fleet):
    """Tells what a test puts in, and takes note of what is asked of it."""

    def __init__(self, names):
        super().__init__(FleetPlan(hosts_of([names]), PLAN))
        self.wanted: queue.Queue[tuple[str, Told] | None] = queue.Queue()
        self.asked: list[str] = []

    def put(self, host, *told):
        for each in told:
            self.wanted.put((host, each))

    def run(self, deliver):
        while (told := self.wanted.get()) is not None:
            deliver(*told)

    def stop(self):
        self.asked.append("stop")
        self._stop.set()

    def kill(self):
        self.asked.append("kill")
        for name in [host.host for host in self._asked.hosts]:
            self.put(name, HostChanged(STOPPED, "Stopped by request."))
        self.wanted.put(None)


def begin(plan=PLAN, gpus=2):
    gpu = tuple(model.Device(f"cuda:{index}", "NVIDIA H200", f"GPU-{index}") for index in range(gpus))
    return [
        HostChanged(CONNECTING), model.RunStarted(run_id="r", series_id="s", plan=plan, environment={}, number=7),
        model.DevicesFound(devices=(model.Device("cpu", "a CPU"), *gpu)),
    ]  # fmt: skip


def timed(index, cpu_ns, *gpu_ns):
    key, events = PLAN.cases[index].key, list[model.Event]()
    for number in range(1, 9):
        for device, each_ns in zip(("cpu", "cuda:0", "cuda:1"), (cpu_ns, *gpu_ns), strict=False):
            events.append(model.DeviceSampled(case=key, device=device, round_index=number, calls_per_block=1,
                                         samples={"latency": (each_ns,) * 5}))  # fmt: skip
    return [*events, model.CaseFinished(case=key)]


def done():
    return [model.RunFinished(status="done"), HostChanged(DONE)]


@asynccontextmanager
async def opened(names="gpu[1-3]", size=(120, 40), glyphs=UNICODE, keymap=DEFAULT_KEYMAP):
    fleet = ScriptedFleet(names)
    state = FleetState.of(hosts_of([names]))
    app = FleetApp(fleet, state, lambda _host, _told: None, FleetOptions(keymap=keymap), glyphs)
    async with app.run_test(size=size) as pilot:
        yield pilot, fleet
        fleet.wanted.put(None)
        app.running.thread.join(PATIENCE_S)


def text_of(pilot, selector=""):
    found = pilot.app.screen.query(selector or "Lines").results(Lines)
    return "\n".join(plain(line) for lines in found for line in lines.lines)


async def shown(pilot, *texts):
    await settled(pilot, lambda: all(text in text_of(pilot) for text in texts))


# ------------------------------------------------------------------ looking


async def test_hosts_are_live_and_one_in_trouble_says_why(words):
    async with opened() as (pilot, fleet):
        await shown(pilot, "3 waiting")
        fleet.put("gpu1", *begin(), *timed(0, 1e6, 2e6, 2e6), *timed(1, 1e9, 1e7, 1e7), *done())
        fleet.put("gpu2", *begin(), *timed(0, 1e6, 2e6, 2e6), LOST)
        fleet.put("gpu3", *begin(), model.Progressed(case=PLAN.cases[0].key, device="cuda:0", phase="warm-up"))
        await shown(pilot, "1 done, 1 running, 1 unreachable; 3 of 6 cases")
        lines = text_of(pilot, "#list").splitlines()
        assert "done" in lines[0]
        assert "2/2" in lines[0]
        assert "NVIDIA H200" in lines[0]
        assert "The GPU wins" in lines[0]
        assert "unreachable" in lines[1]
        words(lines[2].strip())
        await pilot.press("j")
        await shown(pilot, LOST.message, LOST.remedy)


async def test_enter_shows_a_hosts_cases_on_each_gpu_live():
    async with opened() as (pilot, fleet):
        fleet.put("gpu2", *begin(), *timed(0, 1e6, 2e6, 5e6))
        await shown(pilot, "1/2")
        await pilot.press("j", "enter")
        await settled(pilot, lambda: isinstance(pilot.app.screen, HostScreen))
        await shown(pilot, "matmul 64", "2.00 ms", "5.00 ms")
        fleet.put("gpu2", *timed(1, 1e9, 1e7, 3e7))
        await shown(pilot, "10.0 ms", "30.0 ms")
        larger = [line.split() for line in text_of(pilot, "#list").splitlines() if "2,048" in line]
        assert [words[words.index("2,048") + 1] for words in larger] == ["0", "1"]
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, FleetScreen)


async def test_all_cases_stand_together_and_the_cursor_stays_on_its_own():
    async with opened() as (pilot, fleet):
        for host in ("gpu1", "gpu3"):
            fleet.put(host, *begin(gpus=1), *timed(0, 1e6, 2e6))
        await shown(pilot, "2 of 4 cases")
        await pilot.press("z")
        lines = [line for line in text_of(pilot, "#list").splitlines() if line.strip()]
        assert ["64" in line for line in lines] == [True, True, False, False]
        await pilot.press("j", "j", "j")  # gpu3 at 2,048
        assert "gpu3, by ssh" in text_of(pilot, "#about")
        fleet.put("gpu2", *begin(gpus=1))
        await settled(pilot, lambda: "of 6 cases" in text_of(pilot))
        assert "gpu3, by ssh" in text_of(pilot, "#about")
        await pilot.press("z")
        await shown(pilot, "host ")
        assert "gpu3, by ssh" in text_of(pilot, "#about")


async def test_a_hundred_hosts_scroll():
    async with opened("gpu[001-100]", (80, 24)) as (pilot, fleet):
        await pilot.press("G")
        await shown(pilot, "gpu100, by ssh")
        assert "gpu100" in text_of(pilot, "#list")
        assert "gpu001" not in text_of(pilot, "#list")
        fleet.put("gpu050", *begin())
        await shown(pilot, "1 running, 99 waiting")
        await pilot.press("home")
        assert "gpu001" in text_of(pilot, "#list")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_no_line_is_wider_than_the_screen(size):
    async with opened(size=size) as (pilot, fleet):
        fleet.put("gpu1", *begin(), *timed(0, 1e6, 2e6, 5e6), *timed(1, 1e9, 1e7, 1e7), *done())
        fleet.put("gpu2", LOST)
        await shown(pilot, "1 done")
        for keys in (("j",), ("z",), ("home", "enter")):
            await pilot.press(*keys)
            await settled(pilot, lambda: "by ssh" in text_of(pilot, "#about") and bool(text_of(pilot, "#heads")))
            assert max(map(len, text_of(pilot, "#list, #about, #heads").splitlines())) <= size[0] - 2


@pytest.mark.parametrize("names", ["gpu[1-2]", "rack-12-node-[1-2]"])
async def test_forty_columns_tell_host_state_and_speedup(names):
    async with opened(names, size=(40, 12)) as (pilot, fleet):
        hosts = list(fleet._asked.hosts)
        fleet.put(hosts[0].host, *begin(), *timed(0, 1e6, 2e6, 5e6), *timed(1, 1e9, 1e7, 1e7), *done())
        fleet.put(hosts[1].host, LOST)
        await shown(pilot, "1 done")
        lines = [line.split() for line in text_of(pilot, "#list").splitlines()[:2]]
        assert (lines[0][-2:], lines[0][1][-1], lines[1][0][-1]) == (["done", "2/2"], "1", "2")
        assert "unreachable" in text_of(pilot, "#list")
        assert text_of(pilot, "#heads").split() == ["host", "state", "cases"]
        assert len(text_of(pilot, "#about").splitlines()) <= 3
        await pilot.press("z")
        await settled(pilot, lambda: text_of(pilot, "#heads").split() == ["case", "host", "GPU", "speedup"])
        rows = text_of(pilot, "#list").splitlines()
        assert [row.split()[-1] for row in rows[:2]] == ["0.500×", "0.200×"]
        assert " 2,048 " in text_of(pilot, "#list")
        assert max(map(len, text_of(pilot, "#list, #about, #heads, #page-title").splitlines())) <= 40


@pytest.mark.parametrize("width", [20, 23, 32])
def test_a_case_keeps_its_size_and_its_variant_however_narrow_it_is(width):
    plan = build_plan(PlanRequest(("elementwise",), sizes="64,1000000"))
    names = [case_name(case, width, UNICODE) for case in plan.cases]
    assert {len(name) for name in names} == {width}
    assert len(set(names)) == len(names)
    assert all(f" {size_text(case.size)}" in name for case, name in zip(plan.cases, names, strict=True))


def test_a_name_of_wide_letters_moves_no_column():
    state = FleetState.of(hosts_of(["gpu1,計算機一号"]))
    lines = [
        plain(host_line(each, name_width(state, 100), 100, UNICODE, chosen=chosen))
        for each in state.hosts.values()
        for chosen in (False, True)
    ]
    assert len({cell_len(line[: line.index("waiting")]) for line in lines}) == 1
    assert len({cell_len(line) for line in lines}) == 1


async def test_help_explains_the_fleet():
    async with opened() as (pilot, _):
        await pilot.press("question_mark")
        await settled(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))
        await shown(pilot, "enter", "all cases")
        for elsewhere in ("run", "history", "machine"):
            assert COMMAND_BY_ID[elsewhere].help not in text_of(pilot)
        await pilot.press("question_mark")
        await shown(pilot, "All keys", COMMAND_BY_ID["next-theme"].help)
        for elsewhere in ("run", "history", "machine"):
            assert COMMAND_BY_ID[elsewhere].help not in text_of(pilot)
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, FleetScreen)


# ------------------------------------------------------------------ stopping


async def test_stop_once_after_the_block_and_twice_at_once():
    async with opened() as (pilot, fleet):
        await pilot.press("x")
        assert fleet.asked == ["stop"]
        await shown(pilot, "stopping", "stop now")
        await pilot.press("x")
        assert fleet.asked == ["stop", "kill"]
        await shown(pilot, "3 stopped")


async def test_quitting_asks_while_hosts_are_at_work():
    async with opened() as (pilot, fleet):
        fleet.put("gpu1", *begin())
        await shown(pilot, "1 running")
        await pilot.press("q")
        await shown(pilot, "Stop them and quit?")
        await pilot.press("escape")
        assert fleet.asked == []
        await pilot.press("q")
        await shown(pilot, "Stop them and quit?")
        await pilot.press("y")
        await settled(pilot, lambda: not pilot.app.is_running)
        assert fleet.asked == ["kill"]


# ------------------------------------------------------------------ on a terminal


def fleet_app(folder, hosts, sizes, simulated):
    command = [
        sys.executable, "-m", "cpugpu_tui", "fleet", "run", "-w", hosts, "--launcher", "local", "--tui", "--python",
        sys.executable, "matmul", "--size", sizes, "--simulate", f"{FAST},{simulated}",
    ]  # fmt: skip
    env = {"CPUGPU_DB": str(folder / "h.db"), "XDG_STATE_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    return PtyApp(command, columns=120, rows=40, env=env)


def test_from_the_command_line_to_the_tables_it_leaves_behind(tmp_path):
    with fleet_app(tmp_path, "n[1-2],bad", "64,128", "gpus=2") as app:
        app.until_text("3 done; 6 of 6 cases")
        app.quit()
        assert "3 done" in app.output.decode()


def test_a_terminal_that_goes_away_leaves_no_agent(tmp_path):
    with fleet_app(tmp_path, "n[1-2]", "64:1064:1", "pace=1") as app:
        app.until_text("2 running")
        agents = [
            Witness(each.pid)
            for each in psutil.Process(app.pid).children(recursive=True)
            if "--alive" in each.cmdline()
        ]
        assert len(agents) >= 2
        app.hang_up()
        assert app.exit_code() == 129
        assert all(agent.sees_the_end() for agent in agents)
