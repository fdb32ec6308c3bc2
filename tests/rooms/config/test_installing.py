"""The remedy for a missing package is a command that works where it is printed."""

import shlex
import sys
from importlib.metadata import PackageNotFoundError

import pytest
import setuptools  # noqa: F401 - before pip: it replaces distutils only if nothing has loaded that
from pip._internal.commands.install import InstallCommand
from pip._internal.req.constructors import install_req_from_line

from cpugpu_tui.config import installing
from cpugpu_tui.config.installing import install_command, packages_of
from cpugpu_tui.errors import UnfitError

PACKAGES = ["jinja2>=3.1", "matplotlib>=3.8"]


def read_by_pip(command):
    """Yield what pip reads from a command: each requirement with its versions."""
    python, dash_m, pip, install, *words = shlex.split(command)
    assert (python, dash_m, pip, install) == (sys.executable, "-m", "pip", "install")
    _, named = InstallCommand("install", "").parse_args(words)
    return (str(install_req_from_line(each).req) for each in named)


def test_pip_is_given_the_packages_of_the_extra_and_no_torch():
    assert list(read_by_pip(install_command("report"))) == PACKAGES
    assert list(read_by_pip(install_command("plot"))) == PACKAGES[1:]
    assert list(read_by_pip(install_command("tensorboard"))) == ["tensorboard>=2.18"]


def test_source_that_is_not_installed_names_them_without_versions(monkeypatch):
    def absent(_name):
        raise PackageNotFoundError

    monkeypatch.setattr(installing, "requires", absent)
    assert list(read_by_pip(install_command("report"))) == ["jinja2", "matplotlib"]


def test_pipx_and_uv_install_into_their_own_environment(monkeypatch, tmp_path):
    suffixed, passing = tmp_path / "venvs" / "cpugpu-tui@2", tmp_path / ".cache" / "1a9611a0edad48b"  # of `pipx run`
    for folder in (suffixed, passing):
        folder.mkdir(parents=True)
        (folder / "pipx_metadata.json").touch()
    monkeypatch.setattr(installing, "find_spec", lambda _name: None)  # uv, and pipx by uv, install no pip
    by_uv = ["uv", "pip", "install", "--python", sys.executable, *PACKAGES]
    assert shlex.split(install_command("report", str(tmp_path))) == by_uv
    assert shlex.split(install_command("report", str(passing))) == by_uv
    assert shlex.split(install_command("report", str(suffixed))) == ["pipx", "inject", "cpugpu-tui@2", *PACKAGES]


def test_a_package_that_is_there_and_fails_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "broken_plot.py").write_text("raise ImportError('multiarray failed to import')")
    monkeypatch.syspath_prepend(tmp_path)
    text = r"Charts need a package that fails: multiarray failed to import\."
    with pytest.raises(UnfitError, match=text), packages_of("plot", "Charts need"):
        import broken_plot  # noqa: F401
