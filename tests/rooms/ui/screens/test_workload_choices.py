"""The choosers of the form and its editable defaults."""

import pytest
from tests.helpers.app.fake_run import new_app, opened
from tests.helpers.app.looking import said, session_of, text_of
from tests.rooms.ui.screens.test_workload_form import at, open_form

from cpugpu_tui.config import config_file
from cpugpu_tui.config.parsing import DTYPE_ALIASES, check_dtype
from cpugpu_tui.config.sizes import parse_sizes, sizes_text
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.ui.panes.fields import Choice
from cpugpu_tui.ui.screens.workload_form import request_from, texts_of
from cpugpu_tui.workloads import PRESETS, catalogue

# ------------------------------------------------------------------ choosers


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        (("right",), "tf32"),
        (("space", "space"), "bfloat16"),
        (("left", "left"), "float16"),  # around the end
        (tuple("half"), "float16"),
        (tuple("BF16"), "bfloat16"),
        (("b",), "bfloat16"),
        (tuple("f64"), "float64"),
        ((*"fp16", "backspace", "backspace", *"64"), "float64"),
    ],
)
async def test_a_dtype_is_chosen_with_arrows_space_or_any_of_its_names(keys, chosen):
    async with opened(size=(80, 24)) as pilot:
        await open_form(pilot)
        await at(pilot, "dtype")
        await pilot.press(*keys)
        assert f"[{chosen}]" in said(pilot)
        await pilot.press("enter")
        session = await session_of(pilot)
        assert {case.dtype for case in session.plan.cases} == {chosen}


@pytest.mark.parametrize("alias", [*DTYPE_ALIASES, "torch.half", "BF16", "Float32"])
def test_the_command_line_and_a_config_know_the_same_aliases_as_the_form(alias, tmp_path):
    matmul = next(info for info in catalogue() if info.name == "matmul")
    full = check_dtype(matmul, alias)
    assert full in matmul.dtypes
    config = tmp_path / "config.toml"
    config.write_text(f'[presets.mine]\nworkload = "matmul"\nsizes = 64\ndtypes = "{alias}"\n')
    assert config_file.read(config).presets[0].dtypes == (full,)


async def test_any_number_of_threads_may_be_typed_and_a_wrong_one_is_told_at_once():
    async with opened(size=(80, 24)) as pilot:
        await open_form(pilot)
        await at(pilot, "threads")
        await pilot.press("1", "2")
        assert "[12]" in said(pilot)
        await pilot.press("x")
        assert "'12x'" in text_of(pilot, "#threads-hint")
        await pilot.press("backspace", "enter")
        assert {case.threads for case in (await session_of(pilot)).plan.cases} == {12}


async def test_a_click_chooses_a_word_and_where_words_do_not_fit_the_first_click_shows_them():
    async with opened(size=(80, 24)) as pilot:
        form = await open_form(pilot)
        await pilot.click("#scale", offset=(8, 0))
        assert form.query_one("#scale", Choice).value == "small"
    async with opened(size=(40, 12)) as pilot:
        form = await open_form(pilot)
        dtype = form.query_one("#dtype", Choice)
        assert "or 4 others" in said(pilot)
        await pilot.click("#dtype", offset=(2, 0))
        assert dtype.value == "float32"
        await pilot.click("#dtype", offset=(2, 0))
        assert dtype.value == "float64"


async def test_a_field_without_a_choice_is_left_out():
    async with opened(new_app(PlanRequest(("transfer",))), size=(80, 24)) as pilot:
        form = await open_form(pilot)
        assert not form.query("#dtype")  # only float32 can be copied
        assert form.query_one("#variant", Choice).value == "all 7"


# ------------------------------------------------------------------ editable defaults


@pytest.mark.parametrize("name", PRESETS)
def test_the_texts_of_a_preset_mean_the_preset(name):
    request = PlanRequest((name,))
    texts = texts_of(request)
    assert request_from(texts, request) == request
    first = PRESETS[name].parts[0].sizes
    assert parse_sizes(texts["sizes"]) == (tuple(range(*first)) if PRESETS[name].is_search else first)
    assert texts_of(PlanRequest((name,), dtype="fp32"))["dtype"] == "float32"
    asked = PlanRequest((name,), sizes=texts["sizes"], threads="1,all", devices=("cpu",), rounds=9, scale="small")
    assert request_from(texts_of(asked), asked) == asked


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ((16, 32), "16,32"),
        ((1, 2, 3, 4, 5), "1:6:1"),
        (tuple(range(1, 10_000, 50)), "1:10000:50"),
        ((100_000, 123_456, 1_000_000), "1e5,123456,1e6"),
    ],
)
def test_sizes_are_written_as_short_as_they_can_be_typed(sizes, text):
    assert sizes_text(sizes) == text
    assert parse_sizes(text) == sizes


async def test_a_default_is_text_that_can_be_continued_and_an_empty_field_shows_it_again():
    async with opened(new_app(PlanRequest(("vector-dot",))), size=(80, 24)) as pilot:
        form = await open_form(pilot)
        assert "100,1000,10000,1e5,1e6,1e7,1e8" in said(pilot)
        await pilot.press(*",200")
        assert form.check().request.sizes.endswith("1e8,200")
        await pilot.press("ctrl+u")
        assert "100,1000,10000,1e5,1e6,1e7,1e8" in said(pilot)
        assert form.check().request.sizes is None
