"""Compares each line of the dashboard for a recorded incident, as a real Prometheus computes it, with its expected value; see
dashboard.rs.

The incident has three acts of ten minutes: no congestion; a host at p2 of `far` hardly receives, so far pauses near, and near
pauses its sender; no congestion again, with a restart of far. The record has constant rates and levels in each act; the expected
values are computed from them by hand.
"""

import json
import math
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

AT = "127.0.0.1:9090"
BEGIN = 1_700_000_000
EVERY = 15  # seconds between scrapes
ACTS = (600, 1200, 1800)  # end of each act, in seconds
RESTART = 1590  # restart of far, which resets its counters
LOOKS = (300, 960, 1620)  # times of comparison, one in each act; the third is two scrapes after the restart
RANGE = "1m"

INF = math.inf
NAN = math.nan  # quantile without observations: Grafana shows no line
_ = None  # no such series, or no such line

GAUGES = [
    # switch, metric, labels, value in each act
    ("near", "xoff_headroom_least_free_bytes", "", 40_000, 1_200, 1_200),
    ("far", "xoff_headroom_least_free_bytes", "", 50_000, 30_000, 50_000),
    ("near", "xoff_worker_frames_missing", "worker=0", 0, 0, 0),
    ("far", "xoff_worker_frames_missing", "worker=0", 0, 2, 0),
    ("near", "xoff_port_up", "port=p1", 1, 1, 1),
    ("near", "xoff_port_up", "port=p2", 1, 1, 1),
    ("far", "xoff_port_up", "port=p1", 1, 1, 1),
    ("far", "xoff_port_up", "port=p2", 1, 0, 1),
    ("near", "xoff_pfc_culprit_bytes", "port=p1 class=3 culprit=p2", _, 400_000, _),
    ("far", "xoff_pfc_culprit_bytes", "port=p1 class=3 culprit=p2", _, 500_000, _),
    ("near", "xoff_ofc_requested_flows", "port=p1 class=3", 0, 7, 0),
    ("far", "xoff_shadow_ofc_requested_flows", "port=p1 class=3 policy=ofc", 0, 9, 0),
    ("near", "xoff_requested_rate_bytes_per_second", "port=p1 class=3", 0, 1_250_000, 0),
    ("far", "xoff_shadow_requested_rate_bytes_per_second", "port=p1 class=3 policy=gfc", 0, 625_000, 0),
    ("far", "xoff_shadow_requested_rate_min_bytes_per_second", "port=p1 class=3 policy=gfc", 0, 312_500, 0),
    ("near", "xoff_ingress_occupancy_bytes", "port=p1 class=3", 1_000, 450_000, 1_000),
    ("near", "xoff_ingress_occupancy_max_bytes", "port=p1 class=3", 2_000, 460_000, 460_000),
    ("near", "xoff_ingress_occupancy_bytes", "port=p1 class=0", 0, 0, 0),
    ("near", "xoff_ingress_occupancy_max_bytes", "port=p1 class=0", 0, 0, 0),
    ("far", "xoff_ingress_occupancy_bytes", "port=p1 class=3", 1_500, 550_000, 1_500),
    ("far", "xoff_ingress_occupancy_max_bytes", "port=p1 class=3", 2_000, 560_000, 2_000),
    ("near", "xoff_xoff_threshold_bytes", "port=p1 class=3", 400_000, 400_000, 400_000),
    ("near", "xoff_xoff_threshold_bytes", "port=p2 class=3", 300_000, 300_000, 300_000),
    ("far", "xoff_xoff_threshold_bytes", "port=p1 class=3", 500_000, 500_000, 500_000),
    ("near", "xoff_egress_occupancy_bytes", "port=p2 class=3", 1_000, 410_000, 1_000),
    ("near", "xoff_egress_occupancy_max_bytes", "port=p2 class=3", 2_000, 420_000, 420_000),
    ("far", "xoff_egress_occupancy_bytes", "port=p2 class=3", 1_000, 510_000, 1_000),
    ("far", "xoff_egress_occupancy_max_bytes", "port=p2 class=3", 2_000, 520_000, 2_000),
    ("far", "xoff_egress_occupancy_bytes", "port=p1 class=3", 0, 0, 0),
    ("far", "xoff_egress_occupancy_max_bytes", "port=p1 class=3", 0, 0, 0),
    ("near", "xoff_headroom_free_recent_bytes", "port=p1 class=3", 100_000, 1_200, 100_000),
    ("near", "xoff_headroom_free_min_bytes", "port=p1 class=3", 100_000, 1_200, 1_200),
    ("far", "xoff_headroom_free_recent_bytes", "port=p1 class=3", 120_000, 30_000, 120_000),
    ("far", "xoff_headroom_free_min_bytes", "port=p1 class=3", 120_000, 30_000, 120_000),
    ("near", "xoff_headroom_bytes", "port=p1 class=3", 100_000, 100_000, 100_000),
    ("far", "xoff_headroom_bytes", "port=p1 class=3", 120_000, 120_000, 120_000),
    ("near", "xoff_worker_loop_gap_max_seconds", "worker=0", 0.001, 0.009, 0.009),
    ("near", "xoff_worker_loop_gap_max_seconds", "worker=1", 0.001, 0.001, 0.001),
    ("far", "xoff_worker_loop_gap_max_seconds", "worker=0", 0.002, 0.002, 0.001),
    ("near", "xoff_stall_budget_seconds", "", 0.0025, 0.0025, 0.0025),
    ("far", "xoff_stall_budget_seconds", "", 0.005, 0.005, 0.005),
    ("near", "xoff_fdb_entries", "port=p1", 10, 10, 10),
    ("near", "xoff_fdb_entries", "port=p2", 20, 20, 20),
    ("far", "xoff_fdb_entries", "port=p1", 30, 30, 5),
    ("near", "xoff_looped", "port=p1", 0, 1, 0),
    ("far", "xoff_looped", "port=p1", 0, 0, 0),
    ("near", "xoff_class_policy", "class=3 policy=pfc", 1, 1, 1),
    ("far", "xoff_class_policy", "class=3 policy=gfc", 1, _, _),
    ("far", "xoff_class_policy", "class=3 policy=pfc", _, 1, 1),
    ("near", "xoff_watchdog_storm", "port=p2 class=3", 0, 0, 0),
    ("far", "xoff_watchdog_storm", "port=p2 class=3", 0, 1, 0),
    ("near", "xoff_qcn_feedback", "port=p2 class=3", 0, 42, 0),
    ("near", "xoff_lldp_neighbors", "port=p2", 1, 1, 1),
    ("far", "xoff_lldp_neighbors", "port=p1", 1, 0, 1),
    ("near", "xoff_lldp_dcbx_mismatch", "port=p2 kind=pfc", 0, 1, 0),
    ("near", "xoff_lldp_dcbx_mismatch", "port=p2 kind=ets", 0, 0, 0),
]

COUNTERS = [
    # switch, metric, labels, growth per second in each act
    ("near", "xoff_lossless_lost_frames_total", "port=p1 class=3", 0, 0.1, 0),
    ("far", "xoff_lossless_lost_frames_total", "port=p1 class=3", 0, 0.2, 0),
    ("near", "xoff_xdp_drops_total", "port=p1 reason=rx_ring_full", 0, 0.05, 0),
    ("near", "xoff_xdp_drops_total", "port=p1 reason=rx_too_long", 1, 1, 1),
    ("far", "xoff_device_drops_total", "port=p2 reason=rx_dropped", 0, 0.02, 0),
    ("near", "xoff_unseen_lost_frames_total", "port=p1 classes=lossless", 0, 0.05, 0),
    ("far", "xoff_unseen_lost_frames_total", "port=p2 classes=lossy", 0, 0.02, 0),
    ("near", "xoff_worker_stalls_total", "worker=0", 0, 0.05, 0),
    ("near", "xoff_worker_stalls_total", "worker=1", 0, 0, 0),
    ("far", "xoff_worker_stalls_total", "worker=0", 0, 0.01, 0),
    ("near", "xoff_received_bytes_total", "port=p1 class=3", 1_250_000, 250_000, 1_250_000),
    ("near", "xoff_received_bytes_total", "port=p1 class=0", 125_000, 125_000, 125_000),
    ("far", "xoff_received_bytes_total", "port=p1 class=3", 1_250_000, 200_000, 1_250_000),
    ("far", "xoff_received_bytes_total", "port=p2 class=3", 0, 0, 0),
    ("near", "xoff_sent_bytes_total", "port=p2 class=3", 1_250_000, 200_000, 1_250_000),
    ("near", "xoff_sent_bytes_total", "port=p2 class=0", 125_000, 125_000, 125_000),
    ("far", "xoff_sent_bytes_total", "port=p2 class=3", 1_250_000, 0, 1_250_000),
    ("near", "xoff_pfc_pause_seconds_total", "port=p1 class=3 direction=sent", 0, 0.75, 0),
    ("far", "xoff_pfc_pause_seconds_total", "port=p1 class=3 direction=sent", 0, 0.8, 0),
    ("near", "xoff_pfc_pause_seconds_total", "port=p2 class=3 direction=received", 0, 0.8, 0),
    ("far", "xoff_pfc_pause_seconds_total", "port=p2 class=3 direction=received", 0, 0.9, 0),
    ("near", "xoff_pfc_xoff_sent_total", "port=p1 class=3", 0, 4, 0),
    ("far", "xoff_pfc_xoff_sent_total", "port=p1 class=3", 0, 5, 0),
    ("near", "xoff_pfc_refreshes_sent_total", "port=p1 class=3", 0, 40, 0),
    ("far", "xoff_pfc_refreshes_sent_total", "port=p1 class=3", 0, 50, 0),
    ("near", "xoff_pfc_xon_sent_total", "port=p1 class=3", 0, 3.8, 0),
    ("far", "xoff_pfc_xon_sent_total", "port=p1 class=3", 0, 4.8, 0),
    ("near", "xoff_pfc_xoff_received_total", "port=p2 class=3", 0, 55, 0),
    ("far", "xoff_pfc_xoff_received_total", "port=p2 class=3", 0, 60, 0),
    ("near", "xoff_pfc_xon_received_total", "port=p2 class=3", 0, 4.8, 0),
    ("far", "xoff_pfc_xon_received_total", "port=p2 class=3", 0, 6, 0),
    ("near", "xoff_pfc_xoff_causes_total", "port=p1 class=3 relayed=true trigger=ingress", _, 4, 0),
    ("far", "xoff_pfc_xoff_causes_total", "port=p1 class=3 relayed=false trigger=egress", _, 5, 0),
    ("near", "xoff_shadow_pause_seconds_total", "port=p1 class=3 policy=capfc-stop-max", 0, 0.5, 0),
    ("far", "xoff_shadow_pause_seconds_total", "port=p1 class=3 policy=capfc-stop-max", 0, 0.6, 0),
    ("near", "xoff_shadow_xoff_total", "port=p1 class=3 policy=capfc-stop-max", 0, 3, 0),
    ("far", "xoff_shadow_lost_total", "port=p1 class=3 policy=capfc-stop-max", 0, 0.2, 0),
    ("far", "xoff_shadow_ofc_pauses_total", "port=p1 class=3 policy=ofc", 0, 1, 0),
    ("far", "xoff_shadow_ofc_flow_pauses_total", "port=p1 class=3 policy=ofc", 0, 3, 0),
    ("far", "xoff_shadow_ofc_resumes_total", "port=p1 class=3 policy=ofc", 0, 0.5, 0),
    ("near", "xoff_drops_total", "port=p1 class=3 kind=lost reason=headroom_exhausted", _, 0.1, 0),
    ("near", "xoff_drops_total", "port=p1 class=0 kind=filtered reason=storm_limit", 0, 6, 0),
    ("far", "xoff_drops_total", "port=p1 class=0 kind=filtered reason=hairpin", 0.5, 0.5, 0.5),
    ("far", "xoff_drops_total", "port=p2 class=0 kind=lost reason=flood_paused", _, 2, 0),
    ("near", "xoff_mac_control_malformed_total", "port=p2 reason=unknown_opcode", 0, 0.1, 0),
    ("far", "xoff_ignored_pause_frames_total", "port=p2", 0, 0.2, 0),
    ("far", "xoff_control_starved_total", "port=p1", 0, 0.3, 0),
    ("near", "xoff_loops_total", "port=p1", 0, 0.05, 0),
    ("near", "xoff_fdb_moves_total", "port=p1", 0, 2, 0),
    ("near", "xoff_log_lines_dropped_total", "", 0, 0.1, 0),
    ("far", "xoff_log_lines_dropped_total", "", 0, 0, 0),
    ("far", "xoff_pipeline_halted_seconds_total", "port=p2 class=3", 0, 0.25, 0),
    ("far", "xoff_watchdog_storm_seconds_total", "port=p2 class=3", 0, 0.9, 0),
    ("far", "xoff_watchdog_storms_total", "port=p2 class=3", 0, 0.05, 0),
    ("near", "xoff_ecn_marked_frames_total", "port=p2 class=3", 0, 100, 0),
    ("near", "xoff_qcn_cnms_sent_total", "port=p2 class=3", 0, 10, 0),
    ("near", "xoff_qcn_cnms_not_sent_total", "port=p2 class=3", 0, 1, 0),
    ("near", "xoff_qcn_cnm_feedback_total", "port=p2 class=3", 0, 300, 0),
    ("far", "xoff_cnms_received_total", "port=p1", 0, 9, 0),
    ("near", "xoff_peer_excess_frames_total", "port=p1 class=3", 0, 1, 0),
    ("far", "xoff_peer_late_frames_total", "port=p1 class=3", 0, 2, 0),
    ("near", "xoff_peer_overspeed_bytes_total", "port=p1", 0, 1_000, 0),
    ("far", "xoff_lldp_neighbors_aged_total", "port=p1", 0, 0.05, 0),
    ("near", "xoff_lldp_unsent_frames_total", "port=p1", 0, 0.1, 0),
]

NOTHING = {INF: 0}
HISTOGRAMS = [
    # switch, metric, labels, and for each act the observations per second by upper bound
    (
        "near",
        "xoff_pfc_pause_duration_seconds",
        "port=p1 class=3 direction=sent",
        _,
        {0.001: 2, 0.01: 6, 0.1: 10, INF: 10},
        NOTHING,
    ),
    (
        "far",
        "xoff_pfc_pause_duration_seconds",
        "port=p1 class=3 direction=sent",
        _,
        {0.001: 0, 0.01: 0, 0.1: 8, INF: 8},
        NOTHING,
    ),
    (
        "near",
        "xoff_queueing_delay_seconds",
        "port=p2 class=3",
        {1e-5: 100, 1e-4: 100, 1e-2: 100, INF: 100},
        {1e-5: 0, 1e-4: 0, 1e-2: 20, INF: 20},
        {1e-5: 50, 1e-4: 100, 1e-2: 100, INF: 100},
    ),
    (
        "far",
        "xoff_queueing_delay_seconds",
        "port=p2 class=3",
        {1e-5: 100, 1e-4: 100, 1e-2: 100, INF: 100},
        {1e-5: 0, 1e-4: 0, 1e-2: 15, INF: 20},
        {1e-5: 100, 1e-4: 100, 1e-2: 100, INF: 100},
    ),
    (
        "near",
        "xoff_worker_loop_gap_seconds",
        "worker=0",
        {1e-4: 1000, 1e-2: 1000, INF: 1000},
        {1e-4: 900, 1e-2: 1000, INF: 1000},
        {1e-4: 1000, 1e-2: 1000, INF: 1000},
    ),
    ("near", "xoff_worker_loop_gap_seconds", "worker=1", *3 * ({1e-4: 1000, 1e-2: 1000, INF: 1000},)),
    ("far", "xoff_worker_loop_gap_seconds", "worker=0", *3 * ({1e-4: 0, 1e-2: 1000, INF: 1000},)),
    ("near", "xoff_pfc_send_reaction_seconds", "worker=0", NOTHING, {1e-5: 5, 1e-4: 10, INF: 10}, NOTHING),
    ("far", "xoff_pfc_obey_reaction_seconds", "worker=0", NOTHING, {1e-5: 10, 1e-4: 10, INF: 10}, NOTHING),
]

# Unit of each panel, and for each of its queries the lines by legend, with their value in each act.
EXPECTED = {
    "Lossless frames lost": ("short", {"": (0, 36 + 72, 60)}),
    "Lost outside the switch": ("short", {"": (0, 18 + 7.2, 30)}),
    "Minimum free headroom": ("bytes", {"": (40_000, 1_200, 1_200)}),
    "Frames missing from the ledger": ("short", {"": (0, 2, 0)}),
    "Stalls": ("short", {"": (0, 18 + 3.6, 30)}),
    "Ports without link": ("short", {"": (0, 1, 0)}),
    "Received, by port": ("bps", {"near p1": (11e6, 3e6, 11e6), "far p1": (10e6, 1.6e6, 10e6), "far p2": (0, 0, 0)}),
    "Sent, by port and class": (
        "bps",
        {"near p2 class 3": (10e6, 1.6e6, 10e6), "near p2 class 0": (1e6, 1e6, 1e6), "far p2 class 3": (10e6, _, 10e6)},
    ),
    "Pauses sent (share of time)": ("percentunit", {"near p1 class 3": (_, 0.75, _), "far p1 class 3": (_, 0.8, _)}),
    "Pauses received (share of time)": ("percentunit", {"near p2 class 3": (_, 0.8, _), "far p2 class 3": (_, 0.9, _)}),
    "XOFF, refresh and XON sent": (
        "ops",
        {"near p1 class 3 XOFF": (_, 4, _), "far p1 class 3 XOFF": (_, 5, _)},
        {"near p1 class 3 refresh": (_, 40, _), "far p1 class 3 refresh": (_, 50, _)},
        {"near p1 class 3 XON": (_, 3.8, _), "far p1 class 3 XON": (_, 4.8, _)},
    ),
    "XOFF and XON received": (
        "ops",
        {"near p2 class 3 XOFF": (_, 55, _), "far p2 class 3 XOFF": (_, 60, _)},
        {"near p2 class 3 XON": (_, 4.8, _), "far p2 class 3 XON": (_, 6, _)},
    ),
    "Duration of pauses": (
        "s",  # of near 5 of 10 are 3/4 of the way from 1 to 10 ms, of far 4 of 8 half-way from 10 to 100 ms
        {"p50 near sent": (_, 0.00775, NAN), "p50 far sent": (_, 0.055, NAN)},
        {"p99 near sent": (_, 0.01 + 0.09 * 3.9 / 4, NAN), "p99 far sent": (_, 0.0991, NAN)},
    ),
    "XOFF sent, by trigger": ("ops", {"far p1 3 egress": (_, 5, _)}, {"near p1 3 ingress, further down": (_, 4, _)}),
    "Egress queues that cause pauses": (
        "bytes",
        {"near p1 3 in p2": (_, 400_000, _), "far p1 3 in p2": (_, 500_000, _)},
    ),
    "Shadow policies: pauses (share of time)": (
        "percentunit",
        {"near p1 3 capfc-stop-max": (_, 0.5, _), "far p1 3 capfc-stop-max": (_, 0.6, _)},
    ),
    "Shadow policies: XOFF, and losses not prevented": (
        "ops",
        {"near p1 3 capfc-stop-max XOFF": (_, 3, _)},
        {"far p1 3 capfc-stop-max lost": (_, 0.2, _)},
    ),
    "OFC: flows that peers are asked to pause": (
        "short",
        {"near p1 3 flows": (_, 7, _)},
        {"far p1 3 flows (shadow)": (_, 9, _)},
        {"far p1 3 pauses per s (shadow)": (_, 1, _)},
        {"far p1 3 flows paused per s (shadow)": (_, 3, _)},
        {"far p1 3 resumes per s (shadow)": (_, 0.5, _)},
    ),
    "GFC: rates requested from peers": (
        "bps",
        {"near p1 3 now": (_, 10e6, _)},
        {"far p1 3 now (shadow)": (_, 5e6, _)},
        {"far p1 3 lowest (shadow)": (_, 2.5e6, _)},
    ),
    "Ingress occupancy and XOFF": (
        "bytes",
        {"near p1 class 3": (1_000, 450_000, 1_000), "far p1 class 3": (1_500, 550_000, 1_500)},
        {"XOFF near class 3": (400_000, 400_000, 400_000), "XOFF far class 3": (500_000, 500_000, 500_000)},
    ),
    "Egress occupancy": (
        "bytes",
        {"near p2 class 3": (1_000, 410_000, 1_000), "far p2 class 3": (1_000, 510_000, 1_000)},
    ),
    "Free headroom: minimum of 5 minutes, and since the start": (
        "bytes",
        {"near p1 class 3": (100_000, 1_200, 100_000), "far p1 class 3": (120_000, 30_000, 120_000)},
        {
            "near p1 class 3 since the start": (100_000, 1_200, 1_200),
            "far p1 class 3 since the start": (120_000, 30_000, 120_000),
        },
        {
            "configured, near class 3": (100_000, 100_000, 100_000),
            "configured, far class 3": (120_000, 120_000, 120_000),
        },
    ),
    "Queueing delay": (
        "s",
        {"p50 near p2 class 3": (5e-6, 0.00505, 1e-5), "p50 far p2 class 3": (5e-6, 0.0067, 5e-6)},
        # Observations beyond the last bucket count as its bound.
        {"p99 near p2 class 3": (9.9e-6, 0.009901, 1e-5 + 9e-5 * 0.98), "p99 far p2 class 3": (9.9e-6, 0.01, 9.9e-6)},
    ),
    "Drops, by reason": (
        "pps",
        {
            "near p1 class 3 headroom_exhausted": (_, 0.1, _),
            "near p1 class 0 storm_limit": (_, 6, _),
            "far p1 class 0 hairpin": (0.5, 0.5, 0.5),
            "far p2 class 0 flood_paused": (_, 2, _),
        },
    ),
    "Lost outside the switch: XDP sockets and devices": (
        "pps",
        {"near p1 xdp rx_ring_full": (_, 0.05, _), "near p1 xdp rx_too_long": (1, 1, 1)},
        {"far p2 device rx_dropped": (_, 0.02, _)},
    ),
    "Invalid, ignored and delayed MAC control frames": (
        "pps",
        {"near p2 unknown_opcode": (_, 0.1, _)},
        {"far p2 ignored": (_, 0.2, _)},
        {"far p1 not sent": (_, 0.3, _)},
    ),
    "Duration of a worker loop": (
        "s",
        {
            "p99 near worker 0": (9.9e-5, 1e-4 + 9.9e-3 * 0.9, 9.9e-5),
            "p99 near worker 1": (9.9e-5, 9.9e-5, 9.9e-5),
            "p99 far worker 0": (0.009901, 0.009901, 0.009901),
        },
        {
            "longest near worker 0": (0.001, 0.009, 0.009),
            "longest near worker 1": (0.001, 0.001, 0.001),
            "longest far worker 0": (0.002, 0.002, 0.001),
        },
        {"near stall budget": (0.0025, 0.0025, 0.0025), "far stall budget": (0.005, 0.005, 0.005)},
    ),
    "Stalls beyond the budget": (
        "short",
        {"near worker 0": (0, 3, 0), "near worker 1": (0, 0, 0), "far worker 0": (0, 0.6, 0)},
    ),
    "Known addresses": ("short", {"near p1": (10, 10, 10), "near p2": (20, 20, 20), "far p1": (30, 30, 5)}),
    "Dropped flooded frames": (
        "pps",
        {"near p1 class 0 storm_limit": (_, 6, _), "far p2 class 0 flood_paused": (_, 2, _)},
    ),
    "Loops, and moving stations": (
        "short",
        {"near p1 looped": (_, 1, _)},
        {"near p1 loops found": (_, 3, _)},
        {"near p1 moves/s": (_, 2, _)},
    ),
    "Dropped log lines": ("short", {"near": (0, 6, 0), "far": (0, 0, 0)}),
    "Pipeline halted by a full queue (share of time)": ("percentunit", {"far p2 class 3": (_, 0.25, _)}),
    "Policy of each class": (
        "short",
        {"near class 3 pfc": (1, 1, 1), "far class 3 gfc": (1, _, _), "far class 3 pfc": (_, 1, 1)},
    ),
    "Pause storms": (
        "short",
        {"near p2 class 3 now": (0, 0, 0), "far p2 class 3 now": (0, 1, 0)},
        {"far p2 class 3 share of time": (_, 0.9, _)},
        {"far p2 class 3 began": (_, 3, _)},
    ),
    "ECN: frames marked": ("pps", {"near p2 class 3": (_, 100, _)}),
    "QCN: sent messages": (
        "ops",
        {"near p2 class 3": (_, 10, _)},
        {"near p2 class 3 not sent": (_, 1, _)},
        {"far p1 passed on": (_, 9, _)},
    ),
    "QCN: feedback": ("short", {"near p2 class 3 last": (0, 42, 0)}, {"near p2 class 3 mean sent": (_, 30, _)}),
    "Reaction": (
        "s",
        {"near worker 0 XOFF sent": (NAN, 1e-5 + 9e-5 * 0.98, NAN)},
        {"far worker 0 pause obeyed": (NAN, 9.9e-6, NAN)},
    ),
    "Peers beyond their declared limits": (
        "pps",
        {"near p1 class 3 too many": (_, 1, _)},
        {"far p1 class 3 too late": (_, 2, _)},
        {"near p1 beyond the line": (_, 1_000, _)},
    ),
    "LLDP: neighbors and differences": (
        "short",
        {"near p2 neighbors": (1, 1, 1), "far p1 neighbors": (1, 0, 1)},
        {"near p2 differs: pfc": (_, 1, _)},
        {"far p1 fell silent": (_, 3, _)},
        {"near p1 not sent": (_, 6, _)},
    ),
}
# Units of queries that differ from their panel's unit.
UNITS = {
    ("Shadow policies: XOFF, and losses not prevented", "B"): "pps",
    ("Peers beyond their declared limits", "C"): "Bps",
}


def act(at):
    return next(number for number, end in enumerate(ACTS) if at <= end)


def series():
    """Yields each series: switch, name, labels, and samples as pairs of time and value."""
    times = range(0, ACTS[-1] + 1, EVERY)
    for switch, name, labels, *levels in GAUGES:
        yield switch, name, labels, [(at, levels[act(at)]) for at in times if levels[act(at)] is not None]
    for switch, name, labels, *rates in COUNTERS:
        yield switch, name, labels, counted(switch, rates, times)
    for switch, name, labels, *rates in HISTOGRAMS:
        for edge in max((of_act or {} for of_act in rates), key=len):
            of_edge = [of_act if of_act is None else of_act.get(edge, 0) for of_act in rates]
            yield (
                switch,
                f"{name}_bucket",
                f"{labels} le={'+Inf' if edge == INF else edge}",
                counted(switch, of_edge, times),
            )


def counted(switch, rates, times):
    samples, value = [], 0
    for at in times:
        rate = rates[act(at)]
        if rate is None:
            continue
        value = rate * EVERY + (0 if (switch, at) == ("far", RESTART) else value)
        samples.append((at, value))
    return samples


def known(document):
    """Returns the labels of each metric of a switch, by the reference."""
    text, _, _ = document.read_text(encoding="utf-8").partition("\n## Metrics of an agent\n")
    rows = re.findall(r"^\| `(\w+)`(?: \(\w+\))? \| ([^|]*) \|", text, re.MULTILINE)
    return {name: set(labels.split(", ")) - {""} for name, labels in rows}


def record(reference, to):
    labels_of = known(reference)
    with to.open("w", encoding="utf-8") as file:
        for switch, name, labels, samples in series():
            labels = dict(label.split("=") for label in labels.split())
            assert set(labels) - {"le"} == labels_of[name.removesuffix("_bucket")], f"{name} has other labels: {labels}"
            labels |= {"switch": switch, "instance": f"{switch}:9464", "job": "xoff"}
            inside = ",".join(f'{key}="{value}"' for key, value in labels.items())
            for at, value in samples:
                file.write(f"{name}{{{inside}}} {value} {BEGIN + at}\n")
        file.write("# EOF\n")


def ask(path, **parameters):
    # Without a proxy: Prometheus runs on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{AT}{path}?{urllib.parse.urlencode(parameters)}", timeout=60) as answer:
        return json.load(answer)["data"]


def lines(target, at, chosen):
    """Returns the results of a query by Grafana's legend."""
    expression = target["expr"].replace("$__rate_interval", RANGE)
    for variable in ("switch", "port", "class"):
        expression = expression.replace(f'"${variable}"', f'"{chosen.get(variable, ".*")}"')
    assert "$" not in expression, expression
    found = {}
    for sample in ask("/api/v1/query", query=expression, time=BEGIN + at)["result"]:
        metric = sample["metric"]
        legend = re.sub(r"{{(\w+)}}", lambda of, metric=metric: metric[of[1]], target.get("legendFormat") or "")
        assert legend not in found, f"two lines are called {legend!r}: {expression}"
        found[legend] = (sample["metric"], float(sample["value"][1]))
    return found


def is_same(one, other):
    return math.isclose(one, other, rel_tol=1e-9) or (math.isnan(one) and math.isnan(other))


def compare(found, expected, what):
    found = {legend: value for legend, (_labels, value) in found.items()}
    same = found.keys() == expected.keys() and all(is_same(value, expected[legend]) for legend, value in found.items())
    assert same, f"{what}: {found} instead of {expected}"


def look(panels):
    panels = {panel["title"]: panel for panel in panels if panel["type"] != "row"}
    assert panels.keys() == EXPECTED.keys(), panels.keys() ^ EXPECTED.keys()
    units = {}
    for title, panel in panels.items():
        unit, *queries = EXPECTED[title]
        config = panel["fieldConfig"]
        assert config["defaults"]["unit"] == unit, f"{title} is in {config['defaults']['unit']}"
        for override in config["overrides"]:
            matched = override["matcher"]["options"]
            for of in override["properties"]:
                if of["id"] == "unit":
                    units[title, matched] = of["value"]
        assert len(panel["targets"]) == len(queries), f"{title}: {len(panel['targets'])} queries"
        legends = [legend for query in queries for legend in query]
        assert len(set(legends)) == len(legends), f"{title}: lines that cannot be told apart"
        for target, by_legend in zip(panel["targets"], queries, strict=True):
            for number, at in enumerate(LOOKS):
                expected = {
                    legend: values[number] for legend, values in by_legend.items() if values[number] is not None
                }
                found = lines(target, at, {})
                compare(found, expected, f"{title}, act {number + 1}: {target['expr']}")
                narrow(target, at, found)
    assert units == UNITS, units


def narrow(target, at, found):
    """Checks that the choice of a switch, port or class leaves exactly its lines."""
    for variable in ("switch", "port", "class"):
        if f"{{{{{variable}}}}}" not in (target.get("legendFormat") or ""):
            continue
        for value in {"switch": ("near", "far"), "port": ("p1", "p2"), "class": ("0", "3")}[variable]:
            expected = {legend: of for legend, (labels, of) in found.items() if labels[variable] == value}
            compare(lines(target, at, {variable: value}), expected, f"{variable} {value}: {target['expr']}")


def main(dashboards, reference, directory):
    directory = Path(directory)
    recorded, data = directory / "recorded", directory / "data"
    record(Path(reference), recorded)
    made = subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", recorded, data],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made
    (directory / "prometheus.yml").write_text("")
    command = [
        "prometheus",
        f"--config.file={directory}/prometheus.yml",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address={AT}",
    ]
    with open(directory / "log", "wb") as log:
        prometheus = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        while True:
            assert prometheus.poll() is None, (directory / "log").read_text()
            try:
                if ask("/api/v1/query", query="count({switch=~'.+'})", time=BEGIN)["result"]:
                    break
            except OSError:
                pass
            time.sleep(0.1)
        look(json.loads(Path(dashboards, "xoff.json").read_text(encoding="utf-8"))["panels"])
    finally:
        prometheus.terminate()
        prometheus.wait()


main(*sys.argv[1:])
