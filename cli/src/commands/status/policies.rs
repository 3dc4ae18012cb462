use xoff_config::written::grouped;

use super::layout::{has_traffic, table};
use xoff_config::format::{scaled, span};
use xoff_switch::control::status::{ClassStatus, FlowStatus, PortStatus, ShadowStatus};

pub(super) fn congestion_table(ports: &[&PortStatus]) -> String {
    let header = ["port", "class", "samples", "feedback last", "CNMs", "feedback mean", "not sent"];
    let of_port = |port: &&PortStatus| {
        let name = port.name.clone();
        let points = port.classes.iter().filter_map(|class| Some((class.class, class.congestion_point?)));
        points
            .filter(|(_, point)| point.samples > 0)
            .map(|(class, point)| {
                vec![
                    name.clone(),
                    class.to_string(),
                    grouped(point.samples),
                    point.feedback_last.to_string(),
                    grouped(point.cnms_sent),
                    point.feedback_mean.map_or("-".into(), |mean| format!("{mean:.1}")),
                    grouped(point.cnms_not_sent),
                ]
            })
            .collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = ports.iter().flat_map(of_port).collect();
    if rows.is_empty() { String::new() } else { table(&header, rows.into_iter()) }
}

pub(super) fn rate_table(ports: &[&PortStatus]) -> String {
    let header = ["port", "requested from peer", "obeyed for peer", "rate frames in / out"];
    let active = ports.iter().filter(|port| port.rate_frames_sent + port.rate_frames_received > 0);
    let rows = active.map(|port| {
        vec![
            port.name.clone(),
            rates(port, |class| class.requested_rate_bits_per_second),
            rates(port, |class| class.rate_obeyed_bits_per_second),
            format!("{} / {}", grouped(port.rate_frames_received), grouped(port.rate_frames_sent)),
        ]
    });
    table(&header, rows)
}

fn rates(port: &PortStatus, rate: impl Fn(&ClassStatus) -> Option<u64>) -> String {
    let limited = port.classes.iter().filter_map(|class| Some((class.class, rate(class)?)));
    let rates: Vec<String> =
        limited.map(|(class, rate)| format!("class {class} {}", scaled(rate as f64, "b/s"))).collect();
    if rates.is_empty() { "no limit".into() } else { rates.join(", ") }
}

pub(super) fn flow_table(ports: &[&PortStatus], wanted: fn(&FlowStatus) -> bool) -> String {
    let header = ["port", "class", "flow pauses requested", "paused by peer", "lists in / out", "fallbacks"];
    let rows = ports.iter().flat_map(|port| {
        let classes = port.classes.iter().filter_map(|class| Some((class.class, class.flows?)));
        let wanted = classes.filter(|(_, flows)| wanted(flows));
        wanted.map(|(class, flows)| flow_row(&port.name, class, &flows)).collect::<Vec<_>>()
    });
    table(&header, rows)
}

fn flow_row(port: &str, class: u8, flows: &FlowStatus) -> Vec<String> {
    let [received, sent] = lists(flows);
    let requests = &flows.requests;
    vec![
        port.into(),
        class.to_string(),
        format!("{} now, {} in total", grouped(requests.requested), grouped(requests.flow_pauses)),
        format!("{} now", grouped(flows.paused)),
        format!("{} / {}", grouped(received), grouped(sent)),
        grouped(flows.fallbacks),
    ]
}

pub(super) const fn lists(flows: &FlowStatus) -> [u64; 2] {
    let received = flows.pause_frames_received + flows.resume_frames_received;
    [received, flows.pause_frames_sent + flows.resume_frames_sent]
}

pub(super) fn shadow_table(ports: &[&PortStatus], wanted: fn(&ShadowStatus) -> bool) -> String {
    let header =
        ["port", "class", "shadow policy", "would have paused", "would have requested", "would have lost"];
    let rows = ports.iter().flat_map(|port| {
        let classes = port.classes.iter().filter(|class| class.lossless && has_traffic(class));
        classes.flat_map(|class| {
            class.shadows.iter().filter(|shadow| wanted(shadow)).map(|shadow| {
                let now = if shadow.now { ", NOW" } else { "" };
                let held = format!("{} x, {}{now}", grouped(shadow.xoff), span(shadow.nanos));
                let first =
                    shadow.first_loss_nanos.map_or(String::new(), |at| format!(", first after {}", span(at)));
                let lost = grouped(shadow.lost) + &first;
                let class = class.class.to_string();
                vec![port.name.clone(), class, shadow.policy.clone(), held, shadow_requests(shadow), lost]
            })
        })
    });
    table(&header, rows)
}

fn shadow_requests(shadow: &ShadowStatus) -> String {
    match (shadow.flows, shadow.rate) {
        (Some(flows), _) if flows.pauses > 0 => {
            let now = if flows.requested > 0 {
                format!(", NOW {} flows", grouped(flows.requested))
            } else {
                String::new()
            };
            format!("pause of {} flows ({} requests){now}", grouped(flows.flow_pauses), grouped(flows.pauses))
        }
        (_, Some(rate)) if rate.changes > 0 => {
            let text = |rate: u64| scaled(rate as f64, "b/s");
            let lowest = rate.requested_min_bits_per_second.map_or("-".into(), text);
            let now =
                rate.requested_bits_per_second.map_or("".into(), |rate| format!(", NOW {}", text(rate)));
            format!("{} rates, lowest {lowest}{now}", grouped(rate.changes))
        }
        _ => "-".into(),
    }
}
