"""`cpugpu-tui fleet hosts`: the hosts and the command that reaches each."""

from __future__ import annotations

import typer

from cpugpu_tui.cli.options import HostNames, HostsFile, Json, LauncherName, NodePython

LONGEST_CELL = 10_000
"""Maximum length of a printed command."""

commands = typer.Typer()


@commands.command("hosts")
def list_hosts(
    hosts: HostsFile = None, host_names: HostNames = None, launcher: LauncherName = None,
    node_python: NodePython = None, json: Json = False,
) -> None:  # fmt: skip
    """List the hosts and the command that reaches each.

    Nothing is started. The commands run `true` instead of the agent, so you can try them by hand.
    """
    import shlex

    from cpugpu_tui.cli.fleet.running import HostsRequest
    from cpugpu_tui.cli.output.json_lines import print_json
    from cpugpu_tui.cli.output.table_style import add_columns, console, new_table, plain
    from cpugpu_tui.machine.text import printable
    from cpugpu_tui.transport.launchers import launch_argv, shell_line

    asked = HostsRequest(file=hosts, names=tuple(host_names or ()), launcher=launcher, python=node_python)
    if json:
        for host in asked.hosts():
            print_json({**vars(host), "argv": launch_argv(host, shell_line(host, (), 0))})
        return
    table = new_table()
    add_columns(table, "host", "launcher", "python", "before it", "tags", "command")
    for host in asked.hosts():
        # Quoted, to be tried by hand. `true` replaces the agent's code, which has thousands of characters.
        command = shlex.join(launch_argv(host, "true"))
        cells = (host.host, host.launcher, host.python, " && ".join(host.pre), ", ".join(host.tags), command)
        table.add_row(*(plain(printable(cell, LONGEST_CELL)) for cell in cells))
    console().print(table)
