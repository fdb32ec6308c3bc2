"""The driver's library without a GPU, built from fake_nvml.c, under the real nvidia-ml-py: a fixture for any test.

`fake_nvml.environment` is for a process that a test starts; `fake_nvml.use()` puts the library under pynvml in this
one. `set` may be called at any moment: the library looks at its file at each call.
"""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")
OK, NOT_SUPPORTED, NO_PERMISSION, LOST = 0, 3, 4, 15


class FakeNvml:
    """One library, and the file that says what it answers. Two GPUs unless `set("count", …)` says otherwise."""

    def __init__(self, library: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.library = library
        self._state = folder / "nvml_state"
        self._calls = folder / "nvml_calls"
        self._monkeypatch = monkeypatch
        self._lines: dict[tuple[str, int | None], str] = {}
        self._write()

    @property
    def environment(self) -> dict[str, str]:
        """Environment of a process in which pynvml finds this library."""
        return {**os.environ, "LD_LIBRARY_PATH": str(self.library.parent), **self._variables}

    @property
    def _variables(self) -> dict[str, str]:
        return {"FAKE_NVML_STATE": str(self._state), "FAKE_NVML_CALLS": str(self._calls)}

    def use(self) -> None:
        """Put the library under pynvml in this process and in those that it starts, until the test ends."""
        for name, value in self._variables.items():
            self._monkeypatch.setenv(name, value)
        self._monkeypatch.setenv("LD_LIBRARY_PATH", str(self.library.parent))
        self._monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        self._monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(self.library)))

    def set(self, name: str, value: int, gpu: int | None = None, rate_per_s: float = 0.0) -> None:
        """Set a value (names: fake_nvml.c) of one GPU, by the number in its UUID, or of all; a field may grow."""
        self._lines.pop((name, gpu), None)
        card = "*" if gpu is None else gpu
        self._lines[name, gpu] = f"{card} {name} {value} {rate_per_s}\n"
        self._write()

    def unset(self, name: str, gpu: int | None = None) -> None:
        """Take a `set` back."""
        del self._lines[name, gpu]
        self._write()

    def fail(self, function: str, code: int, gpu: int | None = None) -> None:
        """Let a function (or `*`, or `field:N`) return a code."""
        self.set(f"fail:{function}", code, gpu)

    def calls(self) -> list[str]:
        """Return the functions called so far, and `field:N` for each field asked."""
        return self._calls.read_text().split() if self._calls.exists() else []

    def forget_calls(self) -> None:
        """Begin the list of calls anew."""
        self._calls.unlink(missing_ok=True)

    def _write(self) -> None:
        # The library must never see half a file.
        fresh = self._state.with_suffix(".new")
        fresh.write_text("".join(self._lines.values()))
        fresh.replace(self._state)


def _built(folder: Path, *options: str) -> Path:
    """Return the library's path; skip the test where nothing can build it."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler (cc) to build the fake libnvidia-ml.so.1 with")
    library = folder / "libnvidia-ml.so.1"
    command = [compiler, "-shared", "-fPIC", "-O1", *options, "-o", str(library), str(SOURCE), "-lpthread"]
    subprocess.run(command, check=True, timeout=120)
    return library


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, built once."""
    return _built(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def old_nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of a driver that lacks what came with about version 510 and since."""
    return _built(tmp_path_factory.mktemp("old_nvml"), "-DOLD_DRIVER")


@pytest.fixture
def fake_nvml(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNvml]:
    """Two healthy GPUs; nothing hangs once the test is over."""
    fake = FakeNvml(nvml_library, tmp_path, monkeypatch)
    yield fake
    for name, gpu in [key for key in fake._lines if key[0].startswith("hang:")]:
        fake.unset(name, gpu)


@pytest.fixture
def old_fake_nvml(old_nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """The same under an old driver."""
    return FakeNvml(old_nvml_library, tmp_path, monkeypatch)
