"""The remedy for a missing package is a command that works where it is printed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest
import setuptools  # noqa: F401 - before pip: it replaces distutils only if nothing has loaded that
from pip._internal.commands.install import InstallCommand
from pip._internal.req.constructors import install_req_from_editable, install_req_from_line

from cpugpu_tui.config import installing
from cpugpu_tui.config.installing import install_command

ROOT = Path(__file__).parents[3]
METADATA = """Metadata-Version: 2.4
Name: cpugpu-tui
Version: 1
Requires-Dist: rich>=14
Requires-Dist: jinja2>=3.1; extra == 'report'
Requires-Dist: matplotlib>=3.8; extra == "report"
Requires-Dist: matplotlib>=3.8; extra == 'plot'
"""
PACKAGES = ["jinja2>=3.1", "matplotlib>=3.8"]


def installed(monkeypatch: pytest.MonkeyPatch, folder: Path, direct_url: str | None) -> None:
    info = folder / "cpugpu_tui-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    if direct_url is not None:
        (info / "direct_url.json").write_text(direct_url)
    monkeypatch.setattr(installing, "distribution", lambda _name: PathDistribution(info))


def read_by_pip(command: str) -> Iterator[str]:
    """Yield what pip reads from a command: the names with extras and versions, or the path, of each requirement."""
    python, dash_m, pip, install, *words = shlex.split(command)
    assert (python, dash_m, pip, install) == (sys.executable, "-m", "pip", "install")
    options, named = InstallCommand("install", "").parse_args(words)
    for each in options.editables:
        found = install_req_from_editable(each)
        assert found.link is not None
        yield f"-e {found.link.file_path} {sorted(found.extras)}"
    for each in named:
        found = install_req_from_line(each)
        yield f"{found.link.file_path} {sorted(found.extras)}" if found.link is not None else str(found.req)


def test_a_checkout_is_named_by_its_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed(monkeypatch, tmp_path, f'{{"dir_info": {{"editable": true}}, "url": "{ROOT.as_uri()}"}}')
    assert list(read_by_pip(install_command("report"))) == [f"-e {ROOT} ['report']"]


def test_a_wheel_is_named_by_its_path_and_without_it_the_packages_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wheel = tmp_path / "my wheels" / "cpugpu_tui-1-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    installed(monkeypatch, tmp_path, f'{{"archive_info": {{}}, "url": "{wheel.as_uri()}"}}')
    assert list(read_by_pip(install_command("report"))) == [f"{wheel} ['report']"]
    wheel.unlink()
    assert list(read_by_pip(install_command("report"))) == PACKAGES


@pytest.mark.parametrize("direct_url", [None, "not JSON", '{"url": "https://example.org/x.git", "vcs_info": {}}'])
def test_without_files_the_packages_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, direct_url: str | None
) -> None:
    installed(monkeypatch, tmp_path, direct_url)
    assert list(read_by_pip(install_command("report"))) == PACKAGES
    assert list(read_by_pip(install_command("plot"))) == PACKAGES[1:]


def test_pipx_and_uv_install_into_their_own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed(monkeypatch, tmp_path, f'{{"dir_info": {{}}, "url": "{ROOT.as_uri()}"}}')
    (tmp_path / "uv-receipt.toml").touch()
    by_uv = shlex.split(install_command("report", str(tmp_path)))
    assert by_uv == ["uv", "pip", "install", "--python", sys.executable, *PACKAGES]
    (tmp_path / "pipx_metadata.json").touch()
    assert shlex.split(install_command("report", str(tmp_path))) == ["pipx", "inject", "cpugpu-tui", *PACKAGES]
