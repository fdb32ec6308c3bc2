"""Inventories and host files: what they mean, and the errors of invalid ones."""

import pytest

from cpugpu_tui.config.hosts import expanded, hosts_of, names_in, read_hosts
from cpugpu_tui.config.validation import TomlError
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


def written(folder, text, name="hosts.toml"):
    path = folder / name
    path.write_text(text)
    return path


def test_an_inventory_says_how_each_host_is_reached(tmp_path):
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
    assert (hosts["me@10.0.0.7"].template, hosts["me@10.0.0.7"].pre) == (("docker", "exec", "-i", "{host}"), ())


def test_a_plain_file_is_a_name_a_line(tmp_path):
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
def test_ranges_are_those_of_slurm(text, names):
    assert expanded(text) == names


def test_commas_part_names_but_not_ranges():
    assert names_in("n[1,3], gpu7") == ["n1", "n3", "gpu7"]


@pytest.mark.parametrize("text", ["n[3-1]", "n[a-b]", "n[]", "n[1-99999999]", "a[1-200]b[1-200]"])
def test_a_range_that_is_none_is_said(text, words):
    with words.of(UsageError):
        expanded(text)


@pytest.mark.parametrize("name", ["-oProxyCommand=touch /tmp/x", "-w", "", "a b", "a\tb", "a\x1b[31m", "x" * 300])
def test_a_name_that_a_program_would_read_as_something_else_is_refused(name):
    with pytest.raises(UsageError, match="host"):
        hosts_of([name] if name.strip() else ["''".strip("'")])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("", None, id="no host"),
        pytest.param("[[hosts]]\nhost = 'a'\n[[hosts]]\nhost = 'a'\n", None, id="a host twice"),
        pytest.param("[[hosts]]\nhost = 'a'\nlauncher = 'telnet'\n", 3, id="unknown launcher"),
        pytest.param("[defaults]\nlauncher = 'x'\n[[hosts]]\nhost = 'a'\n", 2, id="unknown launcher in the defaults"),
        pytest.param("[[hosts]]\nhost = 'a'\npasword = 'x'\n", 3, id="unknown key"),
        pytest.param("[[hosts]]\nhost = 'a'\nenv = { 'A;reboot' = '1' }\n", 3, id="name of a variable"),
        pytest.param("[[hosts]]\nhost = 'a'\nenv = { A = { B = '1' } }\n", 3, id="table for a variable"),
        pytest.param("[[hosts]]\nhost = 'a'\nenv = { A = true }\n", 3, id="flag for a variable"),
        pytest.param("[[hosts]]\nhost = 'a[1-'\n", 2, id="range without an end"),
        pytest.param("[[hosts]]\nhost = 'a'\npre = '''x\ny'''\n", 3, id="two lines in a command"),
        pytest.param("[[hosts]]\nhost = 'a'\npython = '-c'\n", 3, id="option for an interpreter"),
        pytest.param("[[hosts]]\nhost = 'a'\ngpus = -1\n", 3, id="negative number"),
        pytest.param("[[hosts]]\nhost = 'a'\n\n[[hosts]]\nhost = 'b'\ngpus = 'x'\n", 6, id="text for a number"),
        pytest.param("hosts = ['a', { host = 'b', cpus = 1.5 }]\n", 1, id="fraction of a CPU"),
        pytest.param("[defaults]\nhost = 'a'\n", 2, id="host in the defaults"),
        pytest.param("[[hosts]]\nhost = '-oProxyCommand=x'\n", 2, id="option for a host"),
        pytest.param("[launchers]\nbox = 'docker exec -i x'\n", 2, id="launcher without host"),
        pytest.param("[launchers]\nssh = 'x {host}'\n", 2, id="built-in launcher"),
        pytest.param("[launchers]\nbox = 'x \"{host}'\n", 2, id="quote without an end"),
        pytest.param("hosts = 3\n", 1, id="number for hosts"),
        pytest.param("[[hosts]]\nhst = 'a'\n", 2, id="unknown key and no host"),
        pytest.param("[[hosts]]\ntags = 'a'\n", 1, id="host without a name"),
        pytest.param("[[hosts\n", 1, id="no TOML"),
    ],
)
def test_each_mistake_has_a_sentence_and_the_file(tmp_path, text, line, words):
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read_hosts(path)
    assert getattr(caught.value, "line", None) == line
    words(str(caught.value).replace(str(path), "hosts.toml"))
    assert str(path) in caught.value.message
    assert caught.value.remedy


def test_a_plain_line_with_more_than_a_name_names_the_line(tmp_path, words):
    with pytest.raises(TomlError) as caught:
        read_hosts(written(tmp_path, "gpu1\ngpu2 slots=8\n", "hosts"))
    assert caught.value.line == 2
    words(f"{caught.value.problem} {caught.value.remedy}")
