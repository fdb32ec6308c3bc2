"""Which methods of controllers handle a message, by name: a controller is made when its first message arrives."""

from __future__ import annotations

from cpugpu_tui.ui.live import messages
from cpugpu_tui.ui.panes.workload import WorkloadPane
from cpugpu_tui.ui.shell import Routes


def of_messages() -> Routes:
    """Return message type → `controller.method` of those that handle it, in this order."""
    return {
        messages.RunAdvanced: ("preparing.meet_run_devices", "live.advance"),
        messages.SeriesEnded: (
            "repeating.look_before", "comparing.compare_with_baseline", "preparing.consider_python",
            "leaving.exit_if_leaving", "live.end_series",
        ),
        messages.CeilingsKnown: ("live.show_ceilings",),
        messages.CalibrationAdvanced: ("live.show_calibration",),
        messages.TelemetryArrived: ("preparing.consider_python", "live.show_telemetry"),
        messages.AgentReported: ("preparing.consider_python", "live.meet_agent"),
        messages.AgentAwaited: ("live.await_agent",),
        messages.DevicesReported: ("preparing.consider_python", "preparing.meet_devices"),
        messages.InterpreterFound: ("preparing.offer_python",),
        messages.EarlierKnown: ("preparing.learn_earlier", "exporting.read_thresholds"),
        messages.SavingChanged: ("live.mark_unsaved",),
        messages.NoticeGiven: ("live.notice",),
        WorkloadPane.Highlighted: ("preparing.highlight",),
        WorkloadPane.Opened: ("preparing.open_form",),
        messages.RowChosen: ("timings.open_row",),
        messages.HeadingClicked: ("timings.sort_by",),
        messages.ClaimWanted: ("running.measure_claim",),
        messages.NoiseWanted: ("measuring.measure_noise",),
        messages.PairChosen: ("comparing.open_pair",),
        messages.SavedRunChosen: ("running.choose_saved",),
    }  # fmt: skip


def of_demo() -> Routes:
    """Return the same for the demo, which names each run and shows the end."""
    routes = dict(of_messages())
    for message, does in ((messages.RunAdvanced, "running.name_run"), (messages.SeriesEnded, "running.show_end")):
        routes[message] = (does, *routes[message])
    return routes
