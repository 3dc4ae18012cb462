use xoff_flow_control::settings::FlowControl;
use xoff_wire::units::ClassSet;

/// Returns why the port ignores pause frames; `None` for [`FlowControl::Ignore`]. `classes` are those of ignored PFC
/// frames; empty for PAUSE frames.
pub(super) fn pause_mismatch(flow_control: FlowControl, classes: ClassSet) -> Option<String> {
    Some(match flow_control {
        FlowControl::Pfc { .. } if classes.is_empty() => {
            "PAUSE (802.3x) at a port with PFC: correct `pause` of the port, or configure PFC at the peer"
                .to_owned()
        }
        FlowControl::Pfc { .. } => {
            let numbers: Vec<String> = classes.iter().map(|class| class.get().to_string()).collect();
            let (named, are) = match &numbers[..] {
                [number] => (format!("class {number}"), "is"),
                _ => (format!("classes {}", numbers.join(", ")), "are"),
            };
            format!(
                "PFC for {named}, which {are} lossy here: configure the same lossless classes at both ends"
            )
        }
        FlowControl::Pause8023x => {
            "PFC at a port with PAUSE (802.3x): correct `pause` of the port, or configure 802.3x at the peer"
                .to_owned()
        }
        FlowControl::Ignore => return None,
    })
}
