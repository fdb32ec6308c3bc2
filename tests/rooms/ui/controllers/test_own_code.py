"""Typed code in the app: the form, what is asked before code of a saved run runs, and the agents that may run it."""

import sys
from dataclasses import replace

import pytest
from tests.helpers.app.fake_run import FakeBackend, finish, new_app, opened, settled, whole_sweep
from tests.helpers.app.fuzz import send_at_once
from tests.helpers.app.looking import said, screen_lines, session_of, table_of, text_of
from tests.helpers.app.saved_runs import app_with, open_newest, status, stream
from textual.events import Paste
from textual.widgets import Input

from cpugpu_tui.session.own_workloads import OwnWorkloads
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.session.typed_code import CodeFields
from cpugpu_tui.ui.panes.workload import WorkloadPane
from cpugpu_tui.ui.screens.code import CodeForm, CodeQuestion, code_lines
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.workloads.own_code import own_code

CODE = own_code("x @ x", "x = torch.rand(n, n)")


def plan_with(*codes, sizes="64,256,1024"):
    return build_plan(PlanRequest(tuple(code.name for code in codes), sizes, own=OwnWorkloads(codes=codes)))


async def ask_about_newest(pilot):
    """Open the newest saved run and repeat it; its code is shown before it runs."""
    await open_newest(pilot)
    await pilot.press("r")
    await settled(pilot, lambda: isinstance(pilot.app.screen, CodeQuestion))


async def open_form(pilot):
    await settled(pilot, lambda: pilot.app.state.agent_ready)
    await pilot.press("o")
    await settled(pilot, lambda: isinstance(pilot.app.screen, CodeForm))
    return pilot.app.screen  # type: ignore[no-any-return]


async def type_in(pilot, **texts):
    for name, text in texts.items():
        pilot.app.screen.query_one(f"#{name}", Input).value = text
    await pilot.pause()


# ------------------------------------------------------------------ the form


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids="{0[0]}x{0[1]}".format)
async def test_typed_code_is_run_and_listed_and_r_runs_it_again(size):
    async with opened(size=size) as pilot:
        await open_form(pilot)
        await type_in(pilot, code="x @ x", setup="x = torch.rand(n, n)", sizes="16:1024")
        assert "cases 6" in said(pilot)
        await pilot.press("enter")
        session = await session_of(pilot)
        assert session.plan.codes == (CODE,)
        assert session.plan.search is not None
        assert {case.size for case in session.plan.cases} >= {16, 1024}
        assert pilot.app.screen.query_one(WorkloadPane).entry.title == "x @ x"
        session.put(*whole_sweep(session.plan))
        await finish(pilot, session)
        assert text_of(pilot, "#status").split()[:4] == ["x", "@", "x", "✓"]
        assert str(table_of(pilot).ordered_columns[0].label) == "size", "the internal name of the code tells nothing"
        table_of(pilot).focus()
        await pilot.press("enter")
        assert text_of(pilot, "#page-title").startswith("x @ x ")
        await pilot.press("escape", "r")
        assert (await session_of(pilot, 2)).plan.codes == (CODE,)


async def test_parameters_make_rows_and_an_edited_entry_keeps_its_code():
    async with opened() as pilot:
        await open_form(pilot)
        await type_in(pilot, code="x * k", setup="x = torch.rand(n)", sizes="64", lets="k=1,2; m=3")
        await pilot.press("enter")
        session = await session_of(pilot)
        assert [code.lets for code in session.plan.codes] == [(("k", "1"), ("m", "3")), (("k", "2"), ("m", "3"))]
        await finish(pilot, session)
        pilot.app.screen.query_one("#workload OptionList").focus()
        await pilot.press("enter")
        await type_in(pilot, sizes="128")
        await pilot.press("down", *"double", "enter")
        again = (await session_of(pilot, 2)).plan
        assert {(case.size, case.dtype) for case in again.cases} == {(128, "float64")}
        assert again.codes == session.plan.codes


@pytest.mark.parametrize(
    ("texts", "field", "told"),
    [
        ({"code": "x @"}, "code", "invalid syntax"),
        ({"code": "missing.py:f"}, "code", "No such file"),
        ({"code": "1", "setup": "x ="}, "setup", "invalid syntax"),
        ({"code": "n"}, "sizes", "uses n"),
        ({"code": "n", "sizes": "9:3"}, "sizes", "stop is not above start"),
        ({"code": "1", "lets": "k"}, "lets", "NAME=VALUE"),
        ({"code": "1", "lets": "n=3"}, "lets", "'n'"),
        ({"code": "1", "against": "x @"}, "against", "invalid syntax"),
        ({"code": "1", "against": "n"}, "sizes", "uses n"),
        ({"code": "1", "host": "-oProxyCommand=x"}, "host", "begin with a dash"),
        ({"code": "1", "host": "gpu01 python3 python4"}, "host", "then ssh or srun"),
        ({"code": "1", "host": "n1 srun", "against": "2"}, "host", "three processes at the same time"),
    ],
)
async def test_what_is_wrong_stands_under_its_field_and_nothing_starts(texts, field, told):
    async with opened(size=(80, 24)) as pilot:
        form = await open_form(pilot)
        await type_in(pilot, **texts)
        for _ in range(2):  # while typing, and after enter
            hint = " ".join(text for line in form.query_one(f"#{field}-hint").lines for text, _ in line)  # type: ignore[attr-defined]
            assert told in hint
            await pilot.press("enter")
        assert pilot.app.screen is form
        assert pilot.app.backend.sessions == []


async def test_nothing_that_is_typed_runs_in_the_app(tmp_path):
    mark = tmp_path / "ran"
    (tmp_path / "own.py").write_text(f"open({str(mark)!r}, 'w')\ndef f(x): return x\n")
    async with opened() as pilot:
        await open_form(pilot)
        await type_in(pilot, code=f"{tmp_path}/own.py:")
        assert f"{tmp_path}/own.py:f" in "".join(screen_lines(pilot))
        await type_in(pilot, code=f"{tmp_path}/own.py:f", setup=f"open({str(mark)!r}, 'w')", sizes="8")
        await pilot.press("enter")
        plan = (await session_of(pilot)).plan
        assert plan.codes[0].target == (f"{tmp_path}/own.py", "f")
        assert len(plan.codes[0].sha256) == 64
    assert not mark.exists()


async def test_keys_that_are_typed_ahead_reach_their_fields():
    async with opened() as pilot:
        form = await open_form(pilot)
        send_at_once(pilot.app, *"x@x", "tab", *"x=n", "tab", *"64")
        await pilot.pause()
        assert form._fields == CodeFields("x@x", "x=n", "64")


async def test_tab_completes_what_all_paths_share(tmp_path):
    for name in ("model_a.py", "model_b.py"):
        (tmp_path / name).touch()
    async with opened() as pilot:
        form = await open_form(pilot)
        await type_in(pilot, code=f"{tmp_path}/mo")
        await pilot.press("tab")
        assert form._fields.code == f"{tmp_path}/model_"


async def test_the_keys_stay_in_sight_on_a_small_terminal_and_yes_is_chosen():
    async with opened(size=(40, 12)) as pilot:
        form = await open_form(pilot)
        await type_in(pilot, code="x.add_(1)", setup="x = torch.rand(8)")
        form.query_one("#in_place").focus()
        await pilot.pause()
        for text in ("[no] yes", "restored before", "enter run"):
            assert text in said(pilot)
        await pilot.press("y", "enter")
        assert (await session_of(pilot)).plan.codes[0].in_place


# ------------------------------------------------------------------ code of saved runs


async def test_code_of_a_saved_run_is_shown_and_runs_after_enter_alone(store):
    setup = "; ".join(f"a{number} = {number}" for number in range(60)) + "; x = torch.rand(n, n)"
    code = own_code("x @ x", setup)
    store.import_run(stream("a", replace(plan_with(code), seed=77)))
    async with opened(app_with(store), (80, 24)) as pilot:
        await ask_about_newest(pilot)
        shown = "".join(text for line in code_lines((code,), 70) for text, role in line if role == "text")
        assert shown == f"x @ x{setup}"
        assert "statement x @ x" in said(pilot)
        await pilot.press("escape")
        assert pilot.app.backend.sessions == []
        assert pilot.app.state.past is not None
        await pilot.press("r")
        await settled(pilot, lambda: isinstance(pilot.app.screen, CodeQuestion))
        await pilot.press("enter")
        session = await session_of(pilot)
        assert (session.plan.codes, session.plan.seed) == ((code,), 77)
        await finish(pilot, session)
        await pilot.press("r")  # it was confirmed
        await session_of(pilot, 2)


async def test_code_that_the_form_takes_from_the_history_is_confirmed_even_if_it_is_changed(store):
    store.import_run(stream("a", plan_with(CODE)))
    async with opened(app_with(store)) as pilot:
        form = await open_form(pilot)
        await settled(pilot, lambda: "x @ x" in said(pilot))
        await pilot.press("down", "enter")
        assert form._fields == CodeFields("x @ x", "x = torch.rand(n, n)", "64,256,1024")
        await type_in(pilot, code="x + x")
        await pilot.press("enter")
        await settled(pilot, lambda: isinstance(pilot.app.screen, CodeQuestion))
        assert pilot.app.backend.sessions == []
        await pilot.press("enter")
        assert (await session_of(pilot)).plan.codes[0].statement == "x + x"


async def test_a_file_that_changed_is_said(store, tmp_path):
    file = tmp_path / "own.py"
    file.write_text("def f(n): return n\n")
    before = own_code(f"{file}:f")
    store.import_run(stream("a", plan_with(before)))
    file.write_text("def f(n): return n + 1\n")
    async with opened(app_with(store)) as pilot:
        await ask_about_newest(pilot)
        assert "own.py has changed since that run" in said(pilot)
        assert "return n + 1" in said(pilot)
        await pilot.press("enter")
        session = await session_of(pilot)
        assert session.plan.codes == (own_code(f"{file}:f"),) != (before,)
        await finish(pilot, session)
        file.write_text("def f(n): return n + 2\n")
        await pilot.press("r")
        session = await session_of(pilot, 2)
        assert session.plan.codes == (own_code(f"{file}:f"),)
        await settled(pilot, lambda: "own.py has changed" in status(pilot))
        await finish(pilot, session)
        file.unlink()
        await pilot.press("r")
        await settled(pilot, lambda: pilot.app.state.problem is not None)
        assert len(pilot.app.backend.sessions) == 2


async def test_a_file_that_is_edited_while_it_is_read_is_shown_again_before_it_runs(store, tmp_path):
    file = tmp_path / "own.py"
    file.write_text("def f(n): return n\n")
    store.import_run(stream("a", plan_with(own_code(f"{file}:f"))))
    async with opened(app_with(store)) as pilot:
        await ask_about_newest(pilot)
        file.write_text("def f(n): return n + 41\n")
        await pilot.press("enter")
        await settled(pilot, lambda: "own.py has changed while you read it" in said(pilot))
        assert "return n + 41" in said(pilot)
        assert pilot.app.backend.sessions == []
        await pilot.press("enter")
        assert (await session_of(pilot)).plan.codes == (own_code(f"{file}:f"),)


async def test_a_file_that_is_deleted_while_it_is_read_runs_nothing(store, tmp_path):
    file = tmp_path / "own.py"
    file.write_text("def f(n): return n\n")
    store.import_run(stream("a", plan_with(own_code(f"{file}:f"))))
    async with opened(app_with(store)) as pilot:
        await ask_about_newest(pilot)
        file.unlink()
        await pilot.press("enter")
        await settled(pilot, lambda: pilot.app.state.problem is not None)
        assert pilot.app.backend.sessions == []


@pytest.mark.parametrize(("python", "is_shown"), [(None, True), ("/another/python", False)])
def test_the_function_of_a_module_is_shown_and_not_imported(tmp_path, monkeypatch, python, is_shown):
    (tmp_path / "bee_pkg").mkdir()
    (tmp_path / "bee_pkg" / "__init__.py").write_text("raise SystemExit\nfrom .inner import hum\n")
    (tmp_path / "bee_pkg" / "inner.py").write_text("def other(): ...\n\ndef hum(x):\n    return x * 440\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    code = replace(CODE, statement="bee_pkg:hum", target=("bee_pkg", "hum"))
    text = "\n".join("".join(text for text, _ in line) for line in code_lines((code,), 200, python))
    assert ("return x * 440" in text, "inner.py, line 3" in text) == (is_shown, is_shown)
    assert ("is not shown" in text) is not is_shown
    assert "def other" not in text
    assert not [name for name in sys.modules if name.startswith("bee_pkg")]


async def test_a_setup_of_several_lines_is_offered_and_pasted():
    lines = ("x = torch.rand(n)", "def f(x):", "    return x + 1")
    async with opened(size=(80, 24)) as pilot:
        form = await open_form(pilot)
        await type_in(pilot, code="f(x)", sizes="64")
        form.query_one("#setup").focus()
        pilot.app.post_message(Paste("\n".join(lines) + "\n"))
        await settled(pilot, lambda: bool(form._fields.setup))
        await pilot.press("enter")
        session = await session_of(pilot)
        assert session.plan.codes[0].setup == lines
        await finish(pilot, session)
        form = await open_form(pilot)
        await pilot.press("down", "enter", "enter")
        assert (await session_of(pilot, 2)).plan.codes[0].setup == lines


def test_nothing_in_the_question_hides_code():
    code = replace(CODE, statement="x\u202e @ x\x1b[8m", target=("os", "system"))
    text = "".join(text for line in code_lines((code,), 70) for text, _ in line)
    assert "\\u202e" in text
    assert "\\x1b[8m" in text
    assert "system of os" in text
    assert "\u202e" not in text
    assert "\x1b" not in text


# ------------------------------------------------------------------ without the app


async def test_the_key_answers_in_a_demo_and_in_a_replay_with_why_not():
    app = new_app(backend=FakeBackend())
    async with opened(app) as pilot:
        app.situate(replay=True)
        await pilot.press("o")
        assert isinstance(app.screen, MainScreen)
        assert "Own code" in status(pilot)


async def test_a_comment_as_code_is_an_error_in_the_form():
    """It ended the app while it was typed."""
    async with opened() as pilot:
        await open_form(pilot)
        await type_in(pilot, code="#")
        await settled(pilot, lambda: "comment" in said(pilot))
        assert isinstance(pilot.app.screen, CodeForm)
