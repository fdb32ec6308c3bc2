"""Use of the cores: by other processes, by ourselves, by invisible processes, a hypervisor and a quota."""

from dataclasses import replace

import pytest

from cpugpu_tui.machine import procfs
from cpugpu_tui.machine.cores import Snapshot, core_use, parse_cores
from cpugpu_tui.machine.procfs import Process, read_process

TICK_S = 0.01
SECOND = 100
"""Ticks of a second."""

OWN, APP, SIBLING, CHILD, NEIGHBOUR, OTHER = 500, 400, 410, 510, 900, 901


def moment(at_s, used, **more):
    """Return a snapshot with the given ticks per process."""
    parents = {OWN: APP, SIBLING: APP, CHILD: OWN, APP: 300, NEIGHBOUR: 1, OTHER: 300}
    names = {NEIGHBOUR: "python", OTHER: "sshd"}
    found = {pid: Process(names.get(pid, "ours"), parents[pid], ticks, 7) for pid, ticks in used.items()}
    whole = Snapshot(at_s * 1e9, found, is_complete=True)
    return replace(whole, **more)  # type: ignore[arg-type]


def used_in_a_second(before, after, **cores):
    begun = moment(0.0, before, busy_ticks=0, allowed_ticks=0, stolen_ticks=0)
    counted = {"busy_ticks": 0, "allowed_ticks": 0, "stolen_ticks": 0} | cores
    return core_use(begun, moment(1.0, after, **counted), OWN, APP, TICK_S)


def test_other_processes_are_named_with_the_cores_that_they_used():
    found = used_in_a_second({NEIGHBOUR: 50, OTHER: 0, OWN: 0}, {NEIGHBOUR: 160, OTHER: 20, OWN: 100})
    assert [(user.command, user.cores) for user in found.others] == [
        ("python", pytest.approx(1.1)), ("sshd", pytest.approx(0.2))
    ]  # fmt: skip
    assert (found.other_processes, found.own_cores) == (2, pytest.approx(1.0))


def test_ourselves_our_children_and_whoever_started_us_are_no_others():
    found = used_in_a_second({}, dict.fromkeys((OWN, APP, SIBLING, CHILD), SECOND))
    assert (found.others, found.own_cores) == ((), pytest.approx(4.0))


def test_in_one_process_with_the_interface_the_shells_other_jobs_are_others():
    begun = moment(0.0, {OWN: 0, SIBLING: 0})
    found = core_use(begun, moment(1.0, {OWN: 100, SIBLING: 90}), OWN, None, TICK_S)
    assert found.other_processes == 1


def test_a_process_of_the_same_id_that_began_later_is_another_one():
    before = moment(0.0, {NEIGHBOUR: 5_000})
    after = replace(before, at_ns=1e9, processes={NEIGHBOUR: Process("late", 1, 30, 99)})
    found = core_use(before, after, OWN, APP, TICK_S)
    assert [(user.command, user.cores) for user in found.others] == [("late", pytest.approx(0.3))]


def test_use_that_no_visible_process_accounts_for_is_outside():
    """In a container /proc/stat counts the whole machine, but only the container's processes are visible."""
    assert used_in_a_second({}, {OWN: 100}, busy_ticks=260, allowed_ticks=190).unseen_cores == pytest.approx(0.9)
    assert used_in_a_second({}, {OWN: 100}, busy_ticks=260, allowed_ticks=110).unseen_cores == 0.0, "on others' cores"
    assert used_in_a_second({}, {OWN: 100, NEIGHBOUR: 90}, busy_ticks=195, allowed_ticks=195).unseen_cores == 0.0


def test_processes_that_end_meanwhile_are_not_outside():
    """A shell compiles: each compiler has ended, and its time was added to the shell's."""
    before = moment(0.0, {OTHER: 10}, busy_ticks=0, allowed_ticks=0)
    after = moment(1.0, {OTHER: 10}, busy_ticks=90, allowed_ticks=90)
    after = replace(after, processes={OTHER: after.processes[OTHER]._replace(ended_ticks=90)})
    found = core_use(before, after, OWN, APP, TICK_S)
    assert (found.other_processes, found.ended_cores, found.unseen_cores) == (0, pytest.approx(0.9), 0.0)


def test_where_every_process_is_visible_nobody_is_outside():
    before = moment(0.0, {}, busy_ticks=0, allowed_ticks=0)
    after = moment(1.0, {}, busy_ticks=90, allowed_ticks=90)
    after = replace(after, processes={2: Process("kthreadd", 0, 0, 0)})
    found = core_use(before, after, OWN, APP, TICK_S)
    assert found.unseen_cores is None


def test_what_was_not_read_to_its_end_accuses_nobody():
    begun = moment(0.0, {}, busy_ticks=0, allowed_ticks=0, is_complete=False)
    found = core_use(begun, moment(1.0, {NEIGHBOUR: 9_000}, busy_ticks=200, allowed_ticks=200), OWN, APP, TICK_S)
    assert found.others == ()
    assert found.unseen_cores is None


def test_steal_is_counted_apart():
    assert used_in_a_second({}, {OWN: 50}, stolen_ticks=40).stolen_cores == pytest.approx(0.4)


def test_a_few_ticks_tell_nothing():
    assert core_use(moment(0.0, {}), moment(0.03, {NEIGHBOUR: 3}), OWN, APP, TICK_S) is None


def test_the_throttling_of_a_quota_is_that_of_the_group_held_back_longest():
    begun = moment(0.0, {}, throttled={"a": (90, 9e9), "a/b": (2, 1e8)})
    found = core_use(begun, moment(1.0, {}, throttled={"a": (90, 9e9), "a/b": (7, 6e8)}), OWN, APP, TICK_S)
    assert (found.throttled_periods, found.throttled_ns) == (5, 5e8)


# ------------------------------------------------------------------ files


def process_of(root, text):
    folder = root / "proc" / "9"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(text)
    return read_process(9, str(root))


def test_a_name_may_hold_spaces_and_brackets(tmp_path):
    rest = "S 42 1 1 0 -1 4194304 9 9 0 0 120 30 5 5 20 0 4 0 777 1000 10"
    assert process_of(tmp_path, f"9 (a) b (c) {rest}") == Process("a) b (c", 42, 150, 777, 10)
    assert process_of(tmp_path, f"9 (evil\x1b[31m) {rest}") == Process("evil", 42, 150, 777, 10)


@pytest.mark.parametrize("text", ["", "9 (x", "9 (x) S 1", "9 (x) S a 1 1 0 -1 4 9 9 0 0 x y 5 5 20 0 4 0 7"])
def test_what_is_no_process_is_nothing(tmp_path, text):
    assert process_of(tmp_path, text) is None
    assert read_process(10, str(tmp_path)) is None


def test_cores_are_counted_without_interrupts_and_only_those_that_we_may_use():
    text = "cpu  10 20 30 900 5 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 9 9 9 9 9 9 9 9 0 0\nintr 5\n"
    assert parse_cores(text, (0,)) == (60, 6, 8)
    assert parse_cores("intr 5\n", (0,)) is None


@pytest.mark.parametrize(
    ("path", "cgroup", "text"),
    [
        ("sys/fs/cgroup/job", "0::/job\n", "usage_usec 9\nnr_periods 50\nnr_throttled 4\nthrottled_usec 2500\n"),
        ("sys/fs/cgroup/cpu/job", "3:cpu:/job\n", "nr_periods 50\nnr_throttled 4\nthrottled_time 2500000\n"),
    ],
)  # fmt: skip
def test_throttling_is_read_from_both_versions_of_cgroups(tmp_path, path, cgroup, text):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(cgroup)
    (tmp_path / path).mkdir(parents=True)
    (tmp_path / path / "cpu.stat").write_text(text)
    assert procfs.cpu_throttled(str(tmp_path)) == {path: (4, 2.5e6)}
