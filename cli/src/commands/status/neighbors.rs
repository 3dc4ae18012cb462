use super::layout::table;
use xoff_config::format::span;
use xoff_switch::control::status::{LldpStatus, PortStatus};

pub(super) fn tables(ports: &[&PortStatus]) -> String {
    let mut rows = Vec::new();
    for port in ports {
        for neighbor in &port.lldp.neighbors {
            let pfc = neighbor.pfc.as_ref().map_or("-".into(), |pfc| listed(&pfc.classes));
            let understands = [(neighbor.flow_lists, "flow lists"), (neighbor.rates, "rates")];
            let understands: Vec<&str> =
                understands.into_iter().filter(|(is_so, _)| *is_so).map(|(_, what)| what).collect();
            let name = match &neighbor.system_name[..] {
                "" => neighbor.chassis.clone(),
                name => cut(name),
            };
            let last_received = format!("{} ago", span(neighbor.silent_nanos));
            rows.push(vec![
                port.name.clone(),
                name,
                cut(&neighbor.port),
                neighbor.capabilities.join(", "),
                last_received,
                span(neighbor.age_nanos),
                pfc,
                neighbor.dcbx.join(", "),
                understands.join(", "),
            ]);
        }
    }
    let header =
        ["port", "neighbor", "its port", "is a", "last frame", "there for", "PFC", "DCBX", "understands"];
    table(&header, rows.into_iter()) + &mismatches(ports) + &not_compared(ports) + &refused(ports)
}

fn mismatches(ports: &[&PortStatus]) -> String {
    let rows = ports.iter().flat_map(|port| {
        let mismatches = port.lldp.mismatches.iter();
        mismatches.map(|it| {
            let severity = if it.can_lose { "can lose frames" } else { "loses nothing" };
            vec![port.name.clone(), it.kind.clone(), severity.into(), it.detail.clone()]
        })
    });
    table(&["port", "mismatch", "", "detail"], rows)
}

fn not_compared(ports: &[&PortStatus]) -> String {
    let rows = ports.iter().filter(|port| !port.lldp.neighbors.is_empty()).filter_map(|port| {
        let reason = port.lldp.not_compared.clone()?;
        Some(vec![port.name.clone(), reason])
    });
    table(&["port", "not compared, because"], rows)
}

fn refused(ports: &[&PortStatus]) -> String {
    let rows = ports.iter().flat_map(|port| {
        let LldpStatus { malformed, discarded, too_many, .. } = &port.lldp;
        let malformed = malformed.iter().map(|(reason, count)| (format!("malformed: {reason}"), *count));
        let discarded = discarded.iter().map(|(reason, count)| (format!("discarded: {reason}"), *count));
        let all = malformed.chain(discarded).chain([("too many neighbors".into(), *too_many)]);
        let some = all.filter(|(_, count)| *count > 0);
        some.map(|(what, count)| vec![port.name.clone(), what, count.to_string()]).collect::<Vec<_>>()
    });
    table(&["port", "ignored", "times"], rows)
}

fn listed(classes: &[u8]) -> String {
    match classes {
        [] => "none".into(),
        _ => classes.iter().map(u8::to_string).collect::<Vec<_>>().join(", "),
    }
}

fn cut(text: &str) -> String {
    const MOST: usize = 32;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::tables::tests::{line, status};
    use super::*;
    use xoff_switch::control::status::{MismatchStatus, NeighborStatus, PfcStatus};

    #[test]
    fn status_prints_lldp_neighbors_and_mismatches_with_port() {
        let mut status = status();
        let text =
            |status: &xoff_switch::control::status::Status| tables(&status.ports.iter().collect::<Vec<_>>());
        assert_eq!(text(&status), "");
        status.ports[0].lldp.neighbors.push(NeighborStatus {
            chassis: "02:00:00:00:00:07".into(),
            system_name: "x".repeat(40),
            port: "swp7".into(),
            capabilities: vec!["bridge".into(), "router".into()],
            silent_nanos: 2_000_000_000,
            age_nanos: 120_000_000_000,
            pfc: Some(PfcStatus { classes: vec![3, 4], ..Default::default() }),
            dcbx: vec!["cee".into()],
            rates: true,
            ..Default::default()
        });
        status.ports[0].lldp.mismatches.push(MismatchStatus {
            kind: "pfc".into(),
            can_lose: true,
            detail: "as it is".into(),
        });
        status.ports[0].lldp.not_compared = Some("two of them".into());
        status.ports[1].lldp.too_many = 7;
        let text = text(&status);
        line(
            &text,
            &["left", &"x".repeat(32), "swp7", "bridge, router", "2.00 s ago", "3, 4", "cee", "rates"],
        );
        line(&text, &["left", "pfc", "can lose frames", "as it is"]);
        line(&text, &["left", "two of them"]);
        line(&text, &["right", "too many neighbors", "7"]);
    }
}
