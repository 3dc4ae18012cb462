use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use xoff_switch::control::status::ClassStatus;

pub(super) fn has_traffic(class: &ClassStatus) -> bool {
    let pauses = class.pause_sent.xoff + class.pause_received.xoff;
    class.rx_frames + class.tx_frames + pauses + class.drops.values().sum::<u64>() > 0
}

/// Formats a table; empty if there are no rows.
/// A table may be wider than the terminal, because wrapped cells are unreadable.
pub(in crate::commands) fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table.add_rows(rows);
    if table.is_empty() {
        return String::new();
    }
    for (column, name) in table.column_iter_mut().zip(header) {
        let words = [
            "watchdog",
            "last storm",
            "port",
            "device",
            "link",
            "XDP",
            "class",
            "dropped",
            "kernel drops",
            "ports",
            "state",
            "shadow policy",
            "reason",
            "address",
            "how",
            "protocol",
            "querier",
            "router ports",
        ];
        if !words.contains(name) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("\n{}", table.trim_fmt())
}
