use xoff_config::written::grouped;
use xoff_flow_control::settings::{IngressOrder, WhenFull};

use super::layout::table;
use xoff_config::format::{scaled, span};
use xoff_switch::control::status::{HaltStatus, PipelineStatus, PortStatus, Status};

pub(super) fn pipeline(status: &Status) -> String {
    let PipelineStatus { rate_frames_per_second, delay_nanos, ingress, when_full } = &status.pipeline;
    let rate = rate_frames_per_second.map(|rate| scaled(rate.into(), "pps"));
    let delay = (*delay_nanos > 0).then(|| format!("{} of delay", span(*delay_nanos)));
    let fifo = (ingress == IngressOrder::Fifo.name()).then(|| "one queue for each ingress port".to_owned());
    let full = (when_full == WhenFull::Stop.name()).then(|| "halts for a full queue".to_owned());
    let parts: Vec<String> = [rate, delay, fifo, full].into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { format!("pipeline: {}", parts.join(", ")) }
}

pub(super) fn halt_table(ports: &[&PortStatus]) -> String {
    let rows = ports.iter().flat_map(|port| {
        let full = port.classes.iter().filter(|class| class.egress.halts.count > 0);
        full.map(|class| {
            let HaltStatus { count, now, nanos } = class.egress.halts;
            let now = if now { ", NOW" } else { "" };
            let halts = format!("{} x, {}{now}", grouped(count), span(nanos));
            vec![port.name.clone(), class.class.to_string(), halts]
        })
    });
    table(&["port", "class", "halts by the full queue"], rows)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::tables::{
        render,
        tests::{line, status},
    };
    use super::*;

    #[test]
    fn status_prints_pipeline_only_if_it_is_configured() {
        let mut status = status();
        status.pipeline = PipelineStatus::default();
        status.ports[1].classes[3].egress.halts = HaltStatus::default();
        let text = render(&status, None);
        assert!(!text.contains("pipeline"), "{text}");
        status.pipeline = PipelineStatus {
            rate_frames_per_second: Some(1_000_000),
            delay_nanos: 25_000,
            ingress: "fifo".into(),
            when_full: "stop".into(),
        };
        status.ports[1].classes[3].egress.halts =
            HaltStatus { count: 1_200, now: true, nanos: 2_500_000_000 };
        let text = render(&status, None);
        let queues = "one queue for each ingress port, halts for a full queue";
        line(&text, &[&format!("pipeline: 1.00 Mpps, 25.0 us of delay, {queues}")]);
        line(&text, &["right", "3", "1,200 x, 2.50 s, NOW"]);
    }
}
