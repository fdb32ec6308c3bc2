"""Energy of the processor: summed over packages, over a counter's wrap, or a reason."""

from pathlib import Path

from cpugpu_tui.machine.procfs import Rapl
from cpugpu_tui.model import Reading
from cpugpu_tui.timing.device_readings import CpuWatcher


def package(root, number, energy_uj, name="package-0", range_uj=262_143_328_850):
    folder = root / "sys/class/powercap" / f"intel-rapl:{number}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "energy_uj").write_text(f"{energy_uj}\n")
    (folder / "max_energy_range_uj").write_text(f"{range_uj}\n")
    return folder


def test_packages_are_summed_and_their_parts_are_not_counted_twice(tmp_path):
    for number, name in (("0", "package-0"), ("1", "package-1"), ("0:0", "core"), ("2", "psys")):
        package(tmp_path, number, 5_000_000, name)
    rapl = Rapl(str(tmp_path))
    assert rapl.energy_mj() == Reading(0.0)
    for number, name in (("0", "package-0"), ("1", "package-1"), ("0:0", "core"), ("2", "psys")):
        package(tmp_path, number, 6_500_000, name)
    assert rapl.energy_mj() == Reading(3000.0)


def test_a_counter_that_comes_round_goes_on(tmp_path):
    package(tmp_path, "0", 900_000, range_uj=1_000_000)
    rapl = Rapl(str(tmp_path))
    rapl.energy_mj()
    package(tmp_path, "0", 50_000, range_uj=1_000_000)
    assert rapl.energy_mj() == Reading(150.0)


def test_without_counters_it_is_not_supported(tmp_path):
    assert CpuWatcher(str(tmp_path)).energy_mj() == Reading(None, "not-supported")


def test_counters_for_root_alone_are_a_matter_of_permission(tmp_path, monkeypatch):
    package(tmp_path, "0", 1)
    rapl, honest = Rapl(str(tmp_path)), Path.read_text

    def refused(path, *arguments):
        if path.name == "energy_uj":
            raise PermissionError
        return honest(path, *arguments)

    # Not chmod: tests may run as root, who may read everything.
    monkeypatch.setattr(Path, "read_text", refused)
    assert rapl.energy_mj() == Reading(None, "no-permission")
