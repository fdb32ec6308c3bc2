"""A table whose columns have a fixed width does not measure its cells."""

from textual.app import App
from textual.widgets import DataTable, _data_table


class TableApp(App):
    """An app with an empty table."""

    def compose(self):
        """Yield the table."""
        yield DataTable()


async def test_cells_of_fixed_columns_are_not_measured(monkeypatch):
    """Adding rows measures no cell."""
    measured = []
    measure = _data_table.measure
    monkeypatch.setattr(_data_table, "measure", lambda *of: measured.append(of) or measure(*of))
    app = TableApp()
    async with app.run_test() as pilot:
        table = app.query_one(DataTable)
        table.add_column("fixed", width=10)
        measured.clear()
        table.add_rows([("cell",)] * 100)
        await pilot.pause()
        assert not measured
