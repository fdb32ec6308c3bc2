from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.color import ColorSystem
from textual.app import App
from textual.color import Color
from textual.css.stylesheet import Stylesheet
from textual.theme import BUILTIN_THEMES
from textual.widgets import Static

from cpugpu_tui.ui.themes import (
    DEFAULT_THEME,
    SERIES_COPIES,
    SERIES_CPU,
    SERIES_GPU,
    SLATE,
    all_themes,
    contrast,
    legible,
    load_themes,
    shipped,
    shipped_folder,
    variable_defaults,
)

SHIPPED, SHIPPED_ERRORS = [SLATE, *load_themes(shipped_folder())[0]], load_themes(shipped_folder())[1]
OF_RGB = [theme for theme in SHIPPED if not theme.ansi]
ALL_OF_RGB = OF_RGB + [theme for theme in BUILTIN_THEMES.values() if not theme.ansi]
EACH = pytest.mark.parametrize("theme", OF_RGB, ids=lambda theme: theme.name)
EVERY = pytest.mark.parametrize("theme", ALL_OF_RGB, ids=lambda theme: theme.name)
GROUNDS = ("background", "surface", "panel")
GOOD = 'name = "mine"\nprimary = "#336699"\n'


def colours(theme):
    """Return all CSS variables of a theme in the app."""
    variables = {**variable_defaults(theme), **theme.to_color_system().generate(), **theme.variables}
    return {**variables, **legible(variables)}


def shown(theme, name, ground):
    """Return the contrast of a colour on a ground, with its opacity."""
    named = colours(theme)
    below = Color.parse(named[ground])
    return contrast(below + Color.parse(named[name]), below)


def write(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.toml").write_text(text)
    return folder


# ------------------------------------------------------------------ the shipped ones


def test_the_formula_is_the_standards():
    assert contrast(Color.parse("#000"), Color.parse("#fff")) == pytest.approx(21)
    assert contrast(Color.parse("#777777"), Color.parse("#ffffff")) == pytest.approx(4.48, abs=0.005)


def test_every_shipped_file_loads_and_the_default_is_among_them():
    assert SHIPPED_ERRORS == []
    assert shipped() == {theme.name: theme for theme in SHIPPED}
    assert {DEFAULT_THEME, "paper", "cvd-safe"} <= {theme.name for theme in SHIPPED}


TEXTS = ("foreground", "foreground-muted", "primary", "accent", "success", "warning", "error")
SERIES = (SERIES_CPU, SERIES_GPU, SERIES_COPIES)
CURSORS = ("block-cursor", "block-cursor-blurred")


@EVERY
@pytest.mark.parametrize("ground", GROUNDS)
def test_text_can_be_read_in_every_theme_also_textuals(theme, ground):
    for name in TEXTS:
        assert shown(theme, name, ground) >= 4.5, name
    for name in SERIES:
        assert shown(theme, name, ground) >= 3, name


@EVERY
@pytest.mark.parametrize("cursor", CURSORS)
def test_a_row_can_be_read_under_the_cursor_and_the_cursor_can_be_seen(theme, cursor):
    ground = f"{cursor}-background"
    for name in (f"{cursor}-foreground", "foreground"):
        assert shown(theme, name, ground) >= 4.5, name
    for name in (*TEXTS, *SERIES):
        assert shown(theme, name, ground) >= 3, name
    assert Color.parse(colours(theme)[ground]) != Color.parse(colours(theme)["background"])


@pytest.mark.parametrize("name", ["beacon", "noon"])
def test_high_contrast_is_high(name):
    theme = next(theme for theme in SHIPPED if theme.name == name)
    for ground in GROUNDS:
        assert min(shown(theme, text, ground) for text in (*TEXTS, *SERIES)) >= 7


@pytest.mark.parametrize("name", ["ink", "newsprint"])
def test_monochrome_has_no_colour(name):
    theme = next(theme for theme in SHIPPED if theme.name == name)
    for text in (*GROUNDS, *TEXTS, *SERIES):
        assert Color.parse(colours(theme)[text]).hsl.s <= 0.1, text


@EACH
@pytest.mark.parametrize("ground", GROUNDS)
def test_texts_can_still_be_read_in_256_colours(theme, ground):
    """Return the colour as tmux and many terminals show it."""
    named = {name: in_256(Color.parse(value)) for name, value in colours(theme).items() if name in (*TEXTS, ground)}
    for name in TEXTS:
        assert contrast(named[name], named[ground]) >= 4, name


def in_256(colour):
    """Return a colour as rich rounds it to the palette of 256."""
    return Color.from_rich_color(colour.rich_color.downgrade(ColorSystem.EIGHT_BIT))


# The 16 colours of two palettes, in the order of their codes: xterm's and the kernel console's.
PALETTES = {
    "xterm": "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5 "
    "7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff",
    "console": "000000 aa0000 00aa00 aa5500 0000aa aa00aa 00aaaa aaaaaa "
    "555555 ff5555 55ff55 ffff55 5555ff ff55ff 55ffff ffffff",
}  # fmt: skip


@pytest.mark.parametrize("palette", PALETTES)
@pytest.mark.parametrize("name", ["ansi-dark", "ansi-light"])
def test_sixteen_colours_can_be_read_on_the_ground_they_are_made_for(name, palette):
    theme = next(theme for theme in SHIPPED if theme.name == name)
    sixteen = [Color.parse(f"#{code}") for code in PALETTES[palette].split()]
    ground, ink = (sixteen[0], sixteen[7]) if theme.dark else (sixteen[15], sixteen[0])
    for text in (*TEXTS, *SERIES):
        number = Color.parse(colours(theme)[text]).ansi
        assert number is not None, f"{text} is none of the terminal's own colours"
        assert contrast(ink if number < 0 else sixteen[number], ground) >= 3, text


def test_the_list_is_long_and_names_no_two_themes_alike():
    assert len(SHIPPED) >= 12
    names = {theme.name for theme in SHIPPED}
    assert names & set(BUILTIN_THEMES) == {"ansi-dark", "ansi-light"}
    looks = [(theme.background, theme.primary, theme.foreground) for theme in OF_RGB]
    assert len(set(looks)) == len(looks)


# Machado, Oliveira, Fernandes 2009, severity 1.0, for linear RGB.
COLOUR_BLIND = {
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def as_seen(colour, matrix):
    linear = [(channel / 255) ** 2.2 for channel in (colour.r, colour.g, colour.b)]
    mixed = [sum(weight * channel for weight, channel in zip(row, linear, strict=True)) for row in matrix]
    return Color(*(round(255 * min(max(channel, 0.0), 1.0) ** (1 / 2.2)) for channel in mixed))


def difference(one, other):
    """CIE76: 2.3 is just noticeable."""
    return sum((a - b) ** 2 for a, b in zip(lab(one), lab(other), strict=True)) ** 0.5


def lab(colour):
    r, g, b = ((channel / 255) ** 2.2 for channel in (colour.r, colour.g, colour.b))
    x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505
    y = 0.2126 * r + 0.7152 * g + 0.0722 * b
    z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


@EACH
@pytest.mark.parametrize("sight", COLOUR_BLIND)
def test_cpu_and_gpu_differ_for_every_kind_of_sight(theme, sight):
    cpu, gpu = (as_seen(Color.parse(theme.variables[name]), COLOUR_BLIND[sight]) for name in (SERIES_CPU, SERIES_GPU))
    assert difference(cpu, gpu) >= 30


@EACH
def test_the_curve_with_copies_differs_from_the_other_two(theme):
    cpu, gpu, copies = (Color.parse(theme.variables[name]) for name in SERIES)
    assert min(difference(copies, cpu), difference(copies, gpu)) >= 15


@pytest.mark.parametrize("sight", COLOUR_BLIND)
def test_good_warning_and_bad_differ_for_every_kind_of_sight_in_the_safe_theme(sight):
    theme = next(theme for theme in SHIPPED if theme.name == "cvd-safe")
    named = (theme.success, theme.warning, theme.error, theme.variables[SERIES_GPU])
    good, warning, bad, gpu = (as_seen(Color.parse(str(colour)), COLOUR_BLIND[sight]) for colour in named)
    for one, other in ((good, warning), (good, bad), (warning, bad), (bad, gpu)):
        assert difference(one, other) >= 20


class Painted(App[None]):
    CSS = f"#cpu {{ color: ${SERIES_CPU}; }} #gpu {{ color: ${SERIES_GPU}; background: $panel; }}"

    def get_theme_variable_defaults(self):
        return variable_defaults(self.current_theme)

    def compose(self):
        yield Static("cpu", id="cpu")
        yield Static("gpu", id="gpu")


async def test_every_theme_can_be_applied_to_a_running_app():
    app = Painted()
    async with app.run_test() as pilot:
        for theme in SHIPPED:
            app.register_theme(theme)
        for theme in (*SHIPPED, *BUILTIN_THEMES.values()):
            app.theme = theme.name
            await pilot.pause()
            assert app.query_one("#cpu").styles.color == Color.parse(colours(theme)[SERIES_CPU])


# ------------------------------------------------------------------ broken ones


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = \n", ["TOML", "(line 1)"]),
        ('primary = "#336699"', ["`name`", "missing"]),
        ('name = "mine"', ["`primary`", "missing"]),
        (GOOD + 'primery = "#fff"', ["`primery`", "Did you mean 'primary'?"]),
        (GOOD + 'qqqq = "#fff"', ["`qqqq`", "name, primary,"]),
        (GOOD + 'accent = "blu"', ["(line 3)", "`accent`", "'blu'", "Write a colour as #rrggbb"]),
        (GOOD + "accent = 7", ["`accent`", "7"]),
        (GOOD + 'dark = "yes"', ["`dark`", "true or false"]),
        (GOOD + "text_alpha = 7", ["`text_alpha`", "from 0 to 1"]),
        (GOOD + "luminosity_spread = nan", ["`luminosity_spread`"]),
        (GOOD + 'variables = "none"', ["`variables`", "table"]),
        (GOOD + '[variables]\nseries-cpu = "#12345"', ["`series-cpu`", "'#12345'"]),
        (GOOD + "[variables]\nseries-cpu = 12345", ["`series-cpu`", "12345"]),
        (GOOD + '[variables]\nseries-gpux = "#123456"', ["`series-gpux`", "Did you mean 'series-gpu'?"]),
        (GOOD + '[variables]\nblock-cursor-text-style = "fat"', ["`block-cursor-text-style`", "bold"]),
        ('name = ""\nprimary = "red"', ["`name`", "''"]),
        ('name = "a,b"\nprimary = "red"', ["`name`", "'a,b'"]),
    ],
)
def test_a_broken_file_is_one_sentence_that_names_file_and_key(tmp_path, text, said):
    themes, errors = load_themes(write(tmp_path, broken=text, fine=GOOD))
    assert [theme.name for theme in themes] == ["mine"]
    (error,) = errors
    for words in (*said, str(tmp_path / "broken.toml")):
        assert words in str(error)
    assert error.remedy
    assert "\n" not in error.message


def test_files_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "latin.toml").write_bytes(b'name = "caf\xe9"')
    (tmp_path / "gone.toml").symlink_to(tmp_path / "nowhere")
    themes, errors = load_themes(tmp_path)
    assert themes == []
    assert [next(n for n in ("folder", "latin", "gone") if n in str(e)) for e in errors] == ["folder", "gone", "latin"]


def test_a_folder_that_does_not_exist_has_no_themes(tmp_path):
    assert load_themes(tmp_path / "none") == ([], [])


def test_a_persons_theme_joins_the_shipped_ones_and_replaces_its_namesake(tmp_path):
    write(tmp_path, mine=GOOD, slate='name = "slate"\nprimary = "#ff0000"', broken="name = ")
    listed, errors = all_themes(tmp_path)
    origins = {name: origin for name, _, origin in listed}
    assert {theme.name for theme in SHIPPED} | {"mine"} <= set(origins)
    assert origins["slate"] == origins["mine"] == "your own"
    assert len(errors) == 1


@given(
    st.text(max_size=12)
    | st.from_regex(r"(#[0-9a-f]{3,8}|[a-z_]{2,8}|rgb\([0-9, ]{5,9}\))( [0-9]{1,3}%)?", fullmatch=True)
)
@example("red")
@example("#fff 50%")
@example("hsl(20, 50%, 50%) 20%")
@example("hsl(a,b,c)")
@example("rgb(1,2,3")
@example("red; }")
@example("$primary")
@example("auto 50%")
@example("initial")
def test_what_loads_can_be_applied(value):
    """A value that loads but does not parse as CSS would end the app when the theme is chosen."""
    import json
    from tempfile import TemporaryDirectory

    text = GOOD + f"[variables]\nseries-cpu = {json.dumps(value)}"
    with TemporaryDirectory() as folder:
        (Path(folder) / "a.toml").write_text(text, encoding="utf-8", errors="surrogatepass")
        themes, errors = load_themes(Path(folder))
    assert len(themes) + len(errors) == 1
    for theme in themes:
        sheet = Stylesheet(variables=colours(theme))
        sheet.add_source("Static { color: $series-cpu; background: $primary; }")
        sheet.parse()
