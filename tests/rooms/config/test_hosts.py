"""Inventories and host files: what they say, and the sentence where they cannot be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpugpu_tui.config.hosts import expanded, hosts_of, names_in, read_hosts
from cpugpu_tui.errors import UsageError

INVENTORY = """
[defaults]
python = "~/torch/bin/python"
pre = "module load cuda"
env = { OMP_NUM_THREADS = "8", A = "1" }
tags = ["rack1"]

[launchers]
box = "docker exec -i {host}"

[[hosts]]
host = "gpu[01-03]"

[[hosts]]
host = "n1"
launcher = "srun"
gpus = 4
cpus = 32
options = "--partition=gpu --account='my lab'"
env = { A = "2" }

[[hosts]]
host = "me@10.0.0.7"
launcher = "box"
pre = []
"""


def written(folder: Path, text: str, name: str = "hosts.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_an_inventory_says_how_each_host_is_reached(tmp_path: Path) -> None:
    hosts = {host.host: host for host in read_hosts(written(tmp_path, INVENTORY))}
    assert list(hosts) == ["gpu01", "gpu02", "gpu03", "n1", "me@10.0.0.7"]
    first = hosts["gpu02"]
    assert (first.launcher, first.python, first.pre, first.tags) == (
        "ssh", "~/torch/bin/python", ("module load cuda",), ("rack1",),
    )  # fmt: skip
    slurm = hosts["n1"]
    assert (slurm.gpus, slurm.cpus) == (4, 32)
    assert slurm.options == ("--partition=gpu", "--account=my lab")
    assert slurm.env == {"OMP_NUM_THREADS": "8", "A": "2"}
    assert hosts["me@10.0.0.7"].template == ("docker", "exec", "-i", "{host}")
    assert hosts["me@10.0.0.7"].pre == ()


def test_a_plain_file_is_a_name_a_line(tmp_path: Path) -> None:
    path = written(tmp_path, "gpu1  # the first\n\n# nothing\nuser@gpu[2-3]\r\n", "hosts")
    hosts = read_hosts(path, {"launcher": "local"})
    assert [(host.host, host.launcher) for host in hosts] == [
        ("gpu1", "local"), ("user@gpu2", "local"), ("user@gpu3", "local"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ["a"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-11,20]x", ["n08x", "n09x", "n10x", "n11x", "n20x"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ],
)
def test_ranges_are_those_of_slurm(text: str, names: list[str]) -> None:
    assert expanded(text) == names


def test_commas_part_names_but_not_ranges() -> None:
    assert names_in("n[1,3], gpu7") == ["n1", "n3", "gpu7"]


@pytest.mark.parametrize("text", ["n[3-1]", "n[a-b]", "n[]", "n[1-99999999]", "a[1-200]b[1-200]"])
def test_a_range_that_is_none_is_said(text: str) -> None:
    with pytest.raises(UsageError, match=r"range|more than"):
        expanded(text)


@pytest.mark.parametrize("name", ["-oProxyCommand=touch /tmp/x", "-w", "", "a b", "a\tb", "a\x1b[31m", "x" * 300])
def test_a_name_that_a_program_would_read_as_something_else_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="host"):
        hosts_of([name] if name.strip() else ["''".strip("'")])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no host"),
        ("[[hosts]]\nhost = 'a'\n[[hosts]]\nhost = 'a'\n", "named twice"),
        ("[[hosts]]\nhost = 'a'\nlauncher = 'telnet'\n", "no launcher 'telnet'"),
        ("[[hosts]]\nhost = 'a'\npasword = 'x'\n", "line 3: There is no key `pasword`"),
        ("[[hosts]]\nhost = 'a'\nenv = { 'A;reboot' = '1' }\n", "line 3: `A;reboot` is"),
        ("[[hosts]]\nhost = 'a'\nenv = { A = { B = '1' } }\n", "line 3: `A` is {'B': '1'}."),
        ("[[hosts]]\nhost = 'a'\nenv = { A = true }\n", "line 3: `A` is true."),
        ("[[hosts]]\nhost = 'a[1-'\n", "no range"),
        ("[[hosts]]\nhost = 'a'\npre = '''x\ny'''\n", "`pre` is 'x\\ny', which has several lines"),
        ("[[hosts]]\nhost = 'a'\npython = '-c'\n", "no interpreter"),
        ("[[hosts]]\nhost = 'a'\ngpus = -1\n", "line 3: `gpus` is -1."),
        ("[[hosts]]\nhost = 'a'\n\n[[hosts]]\nhost = 'b'\ngpus = 'x'\n", "line 6: `gpus` is 'x'."),
        ("hosts = ['a', { host = 'b', cpus = 1.5 }]\n", "`cpus` is 1.5."),
        ("[defaults]\nhost = 'a'\n", "line 2: There is no key `host` in [defaults]."),
        ("[[hosts]]\nhost = '-oProxyCommand=x'\n", "read it as an option"),
        ("[launchers]\nbox = 'docker exec -i x'\n", "has no {host}"),
        ("[launchers]\nssh = 'x {host}'\n", "built in"),
        ("[launchers]\nbox = 'x \"{host}'\n", "line 2: `box` is 'x \"{host}'"),
        ("hosts = 3\n", "line 1: `hosts` is 3."),
        ("[[hosts]]\nhst = 'a'\n", "line 2: There is no key `hst`"),
        ("[[hosts]]\ntags = 'a'\n", "line 1: A host has no name."),
        ("[[hosts\n", "line 1: This is not TOML"),
    ],
)
def test_each_mistake_has_a_sentence_and_the_file(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read_hosts(path)
    assert said in caught.value.message
    assert str(path) in caught.value.message
    assert caught.value.remedy


def test_a_plain_line_with_more_than_a_name_names_the_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line 2"):
        read_hosts(written(tmp_path, "gpu1\ngpu2 slots=8\n", "hosts"))


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"a\n" * 600_000])
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "hosts"
    path.write_bytes(content)
    with pytest.raises(UsageError):
        read_hosts(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_hosts(tmp_path / "nowhere")
