//! Sequences of segments and acknowledgements from packetdrill's scripts for Linux (google/packetdrill,
//! `gtests/net/tcp`).
//!
//! `docs/simulation.md` (TCP) lists the intended differences from Linux.

// Tests for SPECIFICATION.md: tcp

use std::fmt::Write;

use super::*;

fn by_duplicates() -> TcpSettings {
    TcpSettings { sack: false, detection: Detection::Duplicates(3), ..settings(Algorithm::Cubic) }
}

fn run_all(settings: &TcpSettings, scripts: &[(&str, &str)]) {
    scripts.iter().for_each(|(name, script)| run_script(name, settings, script));
}

#[test]
fn tcp_slow_start_sends_same_sequences_as_linux() {
    let scripts = [
        ("ack-per-1pkt", "w 40\n> 0-9\n+ 100\n< 1\n> 10-11\n< 2\n> 12-13\n< 3\n> 14-15\nwindow 13"),
        ("ack-per-2pkt", "w 40\n> 0-9\n+ 100\n< 2\n> 10-13\n< 4\n> 14-17\n< 6\n> 18-21\nwindow 16"),
        ("ack-per-4pkt", "w 40\n> 0-9\n+ 100\n< 4\n> 10-17\n< 8\n> 18-25\nwindow 18"),
        ("ack-per-2pkt-send-5pkt", "w 5\n> 0-4\n+ 100\n< 2\nwindow 10\n< 4\nwindow 10\n< 5\nwindow 10"),
        ("ack-per-2pkt-send-6pkt", "w 6\n> 0-5\n+ 100\n< 2\nwindow 12\n< 4\nwindow 12\n< 6\nwindow 12"),
        (
            "app-limited",
            "w 10\n> 0-9\nwindow 10\n+ 105\n< 2\nwindow 12\n+ 5\n< 4\nwindow 14\n+ 5\n< 6\nwindow 16\n+ 5\n< 8\nwindow 18
            + 5\n< 10\nwindow 20",
        ),
        (
            "app-limited-9-packets-out",
            "w 9\n> 0-8\nwindow 10\n+ 105\n< 2\nwindow 12\n+ 5\n< 4\nwindow 14\n+ 5\n< 6\nwindow 16\n+ 5\n< 8\nwindow 18
            + 5\n< 9\nwindow 18",
        ),
        (
            "fq-ack-per-2pkt, windows",
            "w 28\n> 0-9\nwindow 10\n+ 105\n< 2\n> 10-13\nwindow 12\n+ 3\n< 4\n> 14-17\nwindow 14\n+ 2\n< 6\n> 18-21
            window 16\n+ 9\n< 8\n> 22-25\nwindow 18\n+ 1\n< 10\n> 26-27\nwindow 20",
        ),
        (
            "after-idle",
            "w 26\n> 0-9\nwindow 10\n+ 100\n< 10\n> 10-25\nwindow 20\n+ 100\n< 26\nwindow 36\n+ 2000\nflow 20\n> 0-9
            window 10",
        ),
    ];
    run_all(&settings(Algorithm::Cubic), &scripts);
}

#[test]
fn tcp_cubic_sends_same_sequences_as_linux() {
    // Every 0.1 s an acknowledgement of two segments arrives, and lets the sender send four.
    let mut bulk = String::from("w 99\n> 0-9\n");
    for next in (2..=30).step_by(2) {
        let sent = 10 + 2 * (next - 2);
        write!(bulk, "+ 100\n< {next}\n> {sent}-{}\nwindow {}\n", sent + 3, 10 + next)
            .expect("cannot write to a string");
    }
    let mut min_rtt =
        String::from("w 28\n> 0-9\n+ 200\n< 10\n> 10-27\nwindow 20\n+ 180\nw 30\n> 28-29\n+ 19\n");
    let mut rtt = String::from("w 30\n> 0-9\n+ 200\n< 10\n> 10-29\nwindow 20\n+ 239\n");
    for next in (12..=30).step_by(2) {
        write!(min_rtt, "+ 1\n< {next}\nwindow {}\n", 10 + next).expect("cannot write to a string");
        if next <= 26 {
            write!(rtt, "+ 1\n< {next}\nwindow {}\n", 10 + next).expect("cannot write to a string");
        }
    }
    // After a time-out, Linux's CUBIC curve still leads to the old window (10). By RFC 9438 section 4.8, the
    // curve begins flat, so the window reaches 8 one acknowledgement earlier.
    let mut timeout = String::from(
        "w 1\n> 0\n+ 100\n< 1\nwindow 10\nw 2\n> 1\n+ 300\n> 1\n+ 100\n< 2\nwindow 2\nthreshold 7\nw 202\n> 2-3
        + 100\n< 3\n> 4-5\nwindow 3\n+ 2\n< 4\n> 6-7\nwindow 4\n+ 98\n< 5\n> 8-9\nwindow 5\n+ 2\n< 6\n> 10-11\nwindow 6
        + 2\n< 7\n> 12-13\nwindow 7\n",
    );
    for (next, wait) in (8..=21).zip([2, 98, 2, 2, 2, 2, 2, 2, 98, 2, 2, 2, 2, 2]) {
        write!(timeout, "+ {wait}\n< {next}\n> {}\nwindow 7\n", next + 6).expect("cannot write to a string");
    }
    timeout.push_str("+ 2\n< 22\n> 28-29\nwindow 8");
    let scripts = [
        ("bulk-166k until HyStart", bulk.as_str()),
        ("hystart-delay-min-rtt-jumps-downward", &min_rtt),
        ("hystart-delay-rtt-jumps-upward until HyStart", &rtt),
        ("rto-ss-ca-cwnd-bump", &timeout),
    ];
    run_all(&settings(Algorithm::Cubic), &scripts);
}

#[test]
fn tcp_fast_retransmit_sends_same_sequences_as_linux() {
    let sack = "w 4\n> 0-3\n+ 100\n< 0 1\n< 0 1-2\n< 0 1-3\n> 0\n+ 100\n< 4\nwindow 7";
    let by_sacks = TcpSettings { detection: Detection::Duplicates(3), ..settings(Algorithm::Cubic) };
    run_script("fr-4pkt-sack", &by_sacks, sack);
    run_script("fr-4pkt", &by_duplicates(), "w 4\n> 0-3\n+ 100\n< 0\n< 0\n< 0\n> 0\n+ 100\n< 4\nwindow 7");
    let begin = "w 15\n> 0-9\n+ 110\n";
    let end = "+ 10\n< 3\n> 12-13\n+ 20\n< 5\n> 14\n+ 20\n< 7\n+ 20\n< 9\n+ 20\n< 11\n+ 20\n< 13\n+ 20\n< 15";
    let limited_no_sack = format!("{begin}< 0\n> 10\n+ 10\n< 0\n> 11\n{end}");
    let limited_sack = format!("{begin}< 0 1\n> 10\n+ 10\n< 0 1-2\n> 11\n{end}");
    run_script("limited-transmit-no-sack", &by_duplicates(), &limited_no_sack);
    let scripts = [
        ("fr-4pkt-sack", sack),
        // RACK waits a quarter of the round trip (25 ms) before it declares a loss.
        ("fr-4pkt-fack-last-mss", "w 4\n> 0-3\n+ 100\n< 0 3\n+ 24\n+ 1\n> 0"),
        ("limited-transmit-sack", limited_sack.as_str()),
        (
            "cwnd-moderation-disorder-no-moderation",
            "w 4\n> 0-3\nwindow 10\n+ 95\n< 0 1\nwindow 10\n+ 5\nwindow 10",
        ),
    ];
    run_all(&settings(Algorithm::Cubic), &scripts);
}

#[test]
fn tcp_fast_recovery_sends_same_sequences_as_linux() {
    let scripts = [
        (
            "prr-ss-10pkt-lost-1",
            "w 10\n> 0-9\n+ 110\n< 0 1\n+ 10\n< 0 1-2\n+ 10\n< 0 1-3\n> 0\n+ 10\nwindow 7\nthreshold 7\n+ 10\nw 17
            + 10\n< 0 1-4\n> 10\n+ 10\n< 0 1-5\n> 11\n+ 10\n< 0 1-6\n> 12\n+ 10\n< 0 1-7\n> 13\n+ 10\n< 0 1-8\n> 14
            + 10\n< 0 1-9\n> 15\n+ 20\n< 10\n> 16\n+ 10\nwindow 7\nthreshold 7\n+ 30\n< 12\n+ 20\n< 17",
        ),
        (
            "prr-ss-30pkt-lost1_4",
            "w 10\n> 0-9\n+ 10\n< 0 4\n+ 2\n< 0 4-5\n< 0 4-6\n> 0\n< 0 4-7\n> 1\n< 0 4-8\n> 2\n< 0 4-9\n> 3
            + 10\n< 1 4-9\n< 2 4-9\n< 3 4-9\n< 10\n+ 10\nw 20\n> 10-16",
        ),
        (
            "prr-ss-30pkt-lost-1_4-11_16",
            "w 20\n> 0-9\n+ 10\n< 0 4\n> 10\n+ 2\n< 0 4-5\n> 11\n+ 2\n< 0 4-6\n> 0\n+ 2\n< 0 4-7\n> 1\n+ 2\n< 0 4-8\n> 2
            + 2\n< 0 4-9\n> 3\n+ 2\n< 0 4-10\n> 12\n+ 2\n< 0 4-11\n> 13\n+ 10\n< 1 4-11\n> 14-15
            + 2\n< 1 2-11\n> 1 16\n+ 2\n< 1 2-12\n> 17\n+ 2\n< 1 2-13\n> 18",
        ),
        // The last acknowledgement (`< 3 5-6`) arrives after a later one (`< 4 8`), but has new SACK blocks.
        (
            "prr-ss-ack-below-snd_una-cubic",
            "w 10\n> 0-9\n+ 10\n< 0 1\n< 0 1-2\n< 0 1-2 8\n> 0\n+ 12\n< 4 8\n> 4-6\nw 20\n+ 2\n< 3 5-6\n> 7 10",
        ),
    ];
    run_all(&settings(Algorithm::Cubic), &scripts);
}

#[test]
fn tcp_sack_recovery_sends_same_sequences_as_linux() {
    let scripts = [
        (
            "sack-route-refresh-ip-tos",
            "w 4\n> 0-3\n+ 10\n< 4\n+ 10\nw 8\n> 4-7\n+ 10\n< 8\n+ 10\nw 18\n> 8-17\n+ 10\n< 9 11 14-17\n> 9-10 12-13
            + 10\n< 18",
        ),
        (
            "sack-shift-sacked-2-6-8-3-9-nofack",
            "w 10\n> 0-9\n+ 100\n< 0 2\n+ 1\n< 0 2 6\n+ 1\n< 0 2 6 8\n> 0\nflight 2\n+ 7\n< 0 2-3 6 8\n> 1\nflight 3
            + 10\n< 0 2-3 6 8-9\n> 4\n+ 83\n< 1 2-3 6 8-9\n> 5 7\n+ 17\n< 4 6 8-9\n+ 10\n< 7 8-9\n+ 100\n< 10\nflight 0",
        ),
        (
            "sack-shift-sacked-7-3-4-8-9-fack",
            "w 10\n> 0-9\n+ 100\n< 0 7\n+ 25\n> 0\nflight 3\n+ 4\n< 0 3 7\n> 1\nflight 4\n+ 2\n< 0 3-4 7\n> 2\nflight 5
            + 2\n< 0 3-4 7-8\n> 5\n+ 2\n< 0 3-4 7-9\n> 6\n+ 100\n< 10\nflight 0",
        ),
        (
            "sack-shift-sacked-7-5-6-8-9-fack",
            "w 10\n> 0-9\n+ 100\n< 0 7\n+ 25\n> 0\nflight 3\n+ 2\n< 0 5 7\n> 1\nflight 4\n< 0 5-7\n> 2\nflight 5
            < 0 5-8\n> 3\n< 0 5-9\n> 4\n+ 100\n< 10\nflight 0",
        ),
        (
            "cubic-rack-reo-timeout-retrans-failed-incoming-data",
            "w 10\n> 0-9\n+ 20\n< 0 9\n< 0 3 9\n< 10\n+ 20\nwindow 19\n+ 5\nw 12\n> 10-11\n+ 20\n< 10 11\nwindow 19\n+ 4\n+ 1\n> 10",
        ),
    ];
    run_all(&settings(Algorithm::Cubic), &scripts);
}
