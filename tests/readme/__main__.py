"""Renews what README and docs quote of the program, and their pictures: `make readme`.

Figures come from `docs/figures.ndjson`: append the lines that BENCH_FIGURES names, or a line by hand.
"""

import asyncio

from .blocks import PAGES, ROOT, renewed
from .pictures import make_pictures

for page in PAGES:
    page.write_text(renewed(page.read_text()))
asyncio.run(make_pictures(ROOT / "docs"))
