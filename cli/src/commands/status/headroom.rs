use super::layout::table;
use xoff_config::format::{bytes, span};
use xoff_switch::control::status::{ClassStatus, PortStatus};

pub(super) fn table_of(ports: &[&PortStatus]) -> String {
    let header = [
        "port",
        "class",
        "headroom",
        "needed as declared",
        "used at most",
        "left at least",
        "left in 5 min",
        "bytes after XOFF at most",
        "declared response",
        "measured response at most",
        "peer",
    ];
    let rows = ports.iter().flat_map(|port| {
        let lossless = port.classes.iter().filter(|class| class.lossless);
        lossless.map(move |class| row(port, class)).collect::<Vec<_>>()
    });
    table(&header, rows)
}

fn row(port: &PortStatus, class: &ClassStatus) -> Vec<String> {
    let (ingress, response) = (&class.ingress, &class.response);
    let or_none = |value: Option<u64>, text: fn(u64) -> String| value.map_or("-".into(), text);
    let was_held = class.pause_sent.xoff > 0;
    let peer = match (response.excess_frames, response.late_frames) {
        (0, 0) if !was_held => "was never held",
        (0, 0) => "as declared",
        (_, 0) => "TOO FAST",
        (0, _) => "TOO LATE",
        (_, _) => "TOO FAST, TOO LATE",
    };
    vec![
        port.name.clone(),
        class.class.to_string(),
        bytes(ingress.headroom_bytes),
        or_none(ingress.headroom_needed_bytes, bytes),
        bytes(ingress.headroom_used_max_bytes),
        or_none(ingress.headroom_free_min_bytes, bytes),
        or_none(ingress.headroom_free_recent_bytes, bytes),
        bytes(response.after_xoff_max_bytes),
        or_none(port.peer.response_declared_nanos, span),
        span(response.response_max_nanos),
        peer.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tables::tests::{line, status};
    use super::*;

    #[test] // proves: peer-faults
    fn headroom_table_shows_declared_need_and_measured_use() {
        let mut status = status();
        status.ports[0].peer.response_declared_nanos = Some(20_000_000);
        let class = &mut status.ports[0].classes[3];
        class.ingress.headroom_needed_bytes = Some(28_000);
        class.response.after_xoff_max_bytes = 40_000;
        class.response.response_max_nanos = 33_000_000;
        class.response.late_frames = 3;
        let ports: Vec<&PortStatus> = status.ports.iter().collect();
        let text = table_of(&ports);
        let words =
            ["left", "30.0 kB", "28.0 kB", "12.3 kB", "17.7 kB", "40.0 kB", "20.0 ms", "33.0 ms", "TOO LATE"];
        line(&text, &words);
        line(&text, &["right", "was never held"]);
        assert_eq!(text.trim().lines().count(), 3, "lossy classes must not be shown:\n{text}");
    }
}
