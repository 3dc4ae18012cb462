use super::layout::table;
use xoff_switch::router::{Row, RowVia};

fn table_name(number: u32) -> String {
    match number {
        253 => "default".into(),
        254 => "main".into(),
        255 => "local".into(),
        number => number.to_string(),
    }
}

pub(super) fn route_table(rows: &[Row]) -> String {
    let row = |row: &Row| {
        let via: Vec<String> = row.via.iter().map(|via| of_via(via, row.via.len())).collect();
        vec![
            table_name(row.table),
            row.prefix.clone(),
            row.kind.clone(),
            row.metric.to_string(),
            via.join(", "),
        ]
    };
    table(&["table", "prefix", "kind", "metric", "by"], rows.iter().map(row))
}

fn of_via(via: &RowVia, ways: usize) -> String {
    let mut text = match via.gateway {
        Some(gateway) => format!("{gateway} at {}", via.interface),
        None => via.interface.clone(),
    };
    if ways > 1 && via.weight > 1 {
        text += &format!(" x {}", via.weight);
    }
    if via.is_dead {
        text += " (dead)";
    } else if !via.is_of_switch {
        text += " (only for the kernel)";
    } else if via.gateway.is_some() && via.station.is_none() {
        text += " (MAC address unknown)";
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::tables::tests::line;
    use super::*;

    #[test]
    fn routes_view_shows_paths_of_route_and_their_faults() {
        let via = |interface: &str, gateway: Option<&str>, station: Option<&str>| RowVia {
            interface: interface.into(),
            gateway: gateway.map(|address| address.parse().unwrap()),
            station: station.map(Into::into),
            weight: 1,
            is_of_switch: interface != "eth0",
            is_dead: false,
        };
        let row = |prefix: &str, kind: &str, via| Row {
            table: 254,
            prefix: prefix.into(),
            metric: 20,
            kind: kind.into(),
            via,
        };
        let ways = vec![
            RowVia { weight: 2, ..via("up1", Some("10.0.0.1"), Some("02:00:00:00:00:01")) },
            via("up2", Some("fe80::1"), None),
            RowVia { is_dead: true, ..via("up3", Some("10.0.0.3"), None) },
        ];
        let text = route_table(&[
            row("10.9.0.0/16", "unicast", ways),
            row("10.1.0.0/24", "unicast", vec![via("eth0", None, None)]),
            Row { table: 255, ..row("10.1.0.1/32", "local", Vec::new()) },
            Row { table: 100, ..row("fd00::/8", "blackhole", Vec::new()) },
        ]);
        line(
            &text,
            &[
                "main",
                "10.9.0.0/16",
                "unicast",
                "20",
                "10.0.0.1 at up1 x 2, fe80::1 at up2 (MAC address unknown), 10.0.0.3 at up3 (dead)",
            ],
        );
        line(&text, &["main", "10.1.0.0/24", "eth0 (only for the kernel)"]);
        line(&text, &["local", "10.1.0.1/32", "local"]);
        line(&text, &["100", "fd00::/8", "blackhole"]);
    }
}
