use std::ops::Range;

use ratatui::layout::Constraint;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row as TableRow, Table};

use super::super::Picked;
use super::super::ask::StatusError;
use super::super::selection::{Selection, is_congested};
use super::super::tables::{Before, link, mode, sums};
use super::Place;
use xoff_config::format::{bytes, scaled, span};
use xoff_switch::Promise;
use xoff_switch::control::Link;
use xoff_switch::control::status::{ClassStatus, PauseStatus, PortStatus, Status};

pub(super) struct Row {
    pub place: Place,
    pub name: String,
    pub port: PortStatus,
    pub past: Option<(PortStatus, f64)>,
    pub is_congested: bool,
}

impl Row {
    pub fn before(&self) -> Option<Before<'_>> {
        self.past.as_ref().map(|(port, seconds)| Before { port, seconds: *seconds })
    }

    /// Returns the received and sent rates of these classes, each in bits and frames per second; `None`
    /// at the first query.
    pub fn rates(&self, classes: &[ClassStatus]) -> Option<[[f64; 2]; 2]> {
        let before = self.before()?;
        let [rx, tx] = sums(classes.iter());
        let [rx_before, tx_before] = sums(before.classes(classes));
        Some([rx.rate(rx_before, before.seconds), tx.rate(tx_before, before.seconds)])
    }

    fn class_before(&self, class: u8) -> Option<(&ClassStatus, f64)> {
        let (port, seconds) = self.past.as_ref()?;
        Some((port.classes.iter().find(|it| it.class == class)?, *seconds))
    }

    /// Returns the share of time, 0 to 1, for which the class was paused since the previous status.
    pub fn share(&self, class: &ClassStatus, of: fn(&ClassStatus) -> &PauseStatus) -> f64 {
        match self.class_before(class.class) {
            None => f64::from(u8::from(of(class).now)),
            Some((before, seconds)) => {
                let nanos = of(class).nanos.saturating_sub(of(before).nanos);
                (nanos as f64 / 1e9 / seconds).min(1.0)
            }
        }
    }

    fn per_second(&self, of: fn(&PortStatus) -> u64) -> String {
        let rate = self
            .past
            .as_ref()
            .map(|(past, seconds)| of(&self.port).saturating_sub(of(past)) as f64 / seconds);
        rate.map_or("-".into(), |rate| scaled(rate, "/s"))
    }

    fn sum(&self, of: fn(&ClassStatus) -> u64) -> u64 {
        self.port.classes.iter().map(of).sum()
    }
}

pub(super) fn rows(switches: &[(String, Result<Picked, StatusError>)], selection: &Selection) -> Vec<Row> {
    let mut rows = Vec::new();
    for (url, picked) in switches {
        let Ok((status, before)) = picked else { continue };
        // Skip the switch if it has removed a port that `--port` names.
        let Ok(picked) = selection.of(status, before.as_ref()) else { continue };
        for port in picked.ports {
            let past = Before::of(&port, status, before.as_ref()).map(|it| (it.port.clone(), it.seconds));
            let is_congested =
                port.classes.iter().any(|class| is_congested(class, past.as_ref().map(|(port, _)| port)));
            let name = match switches.len() {
                1 => port.name.clone(),
                _ => format!("{}:{}", status.name, port.name),
            };
            rows.push(Row { place: (url.clone(), port.name.clone()), name, port, past, is_congested });
        }
    }
    rows.sort_by_key(|row| !row.is_congested);
    rows
}

pub(super) fn heads(
    switches: &[(String, Result<Picked, StatusError>)],
    trouble: Option<&str>,
) -> Vec<String> {
    let head = |(_, picked): &(String, Result<Picked, StatusError>)| match picked {
        Ok((status, _)) => verdict(status),
        Err(error) => error.to_string(),
    };
    let ongoing = switches.iter().filter_map(|(_, picked)| ongoing(&picked.as_ref().ok()?.0));
    trouble.map(str::to_owned).into_iter().chain(switches.iter().map(head)).chain(ongoing).collect()
}

fn verdict(status: &Status) -> String {
    let verdict = &status.verdict;
    let promise = match verdict.promise {
        Promise::Kept => "no lossless frame lost".to_owned(),
        Promise::NotKept => format!(
            "NOT LOSSLESS: {} lost, {} unseen",
            scaled(verdict.lossless_lost as f64, ""),
            scaled(verdict.unseen_lost as f64, "")
        ),
        Promise::NotProved => "no loss known, NOT PROVED".to_owned(),
    };
    let recent = status.ports.iter().flat_map(|port| &port.classes);
    let recent = recent.filter_map(|class| class.ingress.headroom_free_recent_bytes).min();
    let headroom = recent.map_or(String::new(), |free| format!(", headroom {} in 5 min", bytes(free)));
    format!("{}: {promise}, up {}{headroom}", status.name, span(status.uptime_nanos))
}

fn ongoing(status: &Status) -> Option<String> {
    let first = status.ongoing.first()?;
    let port = first.port.as_ref().or(first.group.as_ref()).map_or(String::new(), |port| format!(" {port}"));
    let class = first.class.map_or(String::new(), |class| format!(" class {class}"));
    let more = match status.ongoing.len() {
        1 => String::new(),
        all => format!(", and {} more", all - 1),
    };
    Some(format!("NOW: {}{port}{class}, {} so far{more}", first.event, scaled(first.count as f64, "")))
}

struct Column {
    header: &'static str,
    width: u16,
    is_word: bool,
    cell: fn(&Row) -> String,
}

const fn word(header: &'static str, width: u16, cell: fn(&Row) -> String) -> Column {
    Column { header, width, is_word: true, cell }
}

const fn number(header: &'static str, width: u16, cell: fn(&Row) -> String) -> Column {
    Column { header, width, is_word: false, cell }
}

/// Columns in order of importance. A terminal of 80 characters shows those up to `lost`.
const COLUMNS: [Column; 16] = [
    word("port", 11, |row| row.name.clone()),
    word("link", 4, |row| link(row.port.link).into()),
    number("in", 9, |row| rate(row, 0)),
    number("out", 9, |row| rate(row, 1)),
    number("waiting", 7, |row| bytes(row.sum(|class| class.egress.bytes))),
    number("headroom", 8, headroom),
    number("holding", 9, |row| paused(row, |class| &class.pause_sent)),
    number("held by", 9, |row| paused(row, |class| &class.pause_received)),
    number("lost", 6, |row| scaled(row.sum(|class| class.lost) as f64, "")),
    number("dropped", 7, |row| scaled(row.sum(|class| class.drops.values().sum()) as f64, "")),
    number("PFC in", 9, |row| row.per_second(|port| port.pfc_frames_received + port.pause_frames_received)),
    number("PFC out", 9, |row| row.per_second(|port| port.pause_frames_sent)),
    number("delay p99", 9, delay),
    number("speed", 9, |row| scaled(row.port.speed_bits_per_second as f64, "b/s")),
    word("device", 15, |row| row.port.device.clone()),
    word("XDP", 27, |row| mode(&row.port)),
];

fn rate(row: &Row, direction: usize) -> String {
    row.rates(&row.port.classes).map_or("-".into(), |rates| scaled(rates[direction][0], "b/s"))
}

fn headroom(row: &Row) -> String {
    let left = row.port.classes.iter().filter_map(|class| class.ingress.headroom_free_recent_bytes);
    left.min().map_or("-".into(), bytes)
}

fn delay(row: &Row) -> String {
    row.port.classes.iter().filter_map(|class| class.queueing_delay.p99_nanos).max().map_or("-".into(), span)
}

fn paused(row: &Row, of: fn(&ClassStatus) -> &PauseStatus) -> String {
    let shares = row.port.classes.iter().map(|class| (class, row.share(class, of)));
    let paused: Vec<(&ClassStatus, f64)> =
        shares.filter(|(class, share)| *share > 0.0 || of(class).now).collect();
    let most = paused.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    let classes: Vec<String> = paused.iter().map(|(class, _)| class.class.to_string()).collect();
    match classes.len() {
        0 => "-".into(),
        1 | 2 => format!("{} {}", classes.join(","), percent(most)),
        many => format!("{many} cl {}", percent(most)),
    }
}

pub(super) fn percent(share: f64) -> String {
    if share < 0.01 { "<1%".into() } else { format!("{:.0}%", 100.0 * share) }
}

fn columns(width: u16) -> usize {
    let ends = COLUMNS.iter().scan(0, |end, column| {
        *end += column.width + 1;
        Some(*end - 1)
    });
    ends.take_while(|end| *end <= width).count().max(1)
}

pub(super) fn table(rows: &[Row], width: u16) -> Table<'static> {
    let columns = &COLUMNS[..columns(width)];
    let cell = |column: &Column, text: String| {
        let line = Line::from(text);
        Cell::from(if column.is_word { line } else { line.right_aligned() })
    };
    let head = columns.iter().map(|column| cell(column, column.header.to_owned()));
    let lines = rows.iter().map(|row| {
        let cells = columns.iter().map(|column| {
            let text = (column.cell)(row);
            cell(column, if column.is_word { short(&text, column.width.into()) } else { text })
        });
        TableRow::new(cells.collect::<Vec<_>>()).style(style(row))
    });
    let widths = columns.iter().map(|column| Constraint::Length(column.width));
    Table::new(lines.collect::<Vec<_>>(), widths.collect::<Vec<_>>())
        .column_spacing(1)
        .header(TableRow::new(head.collect::<Vec<_>>()).style(Style::new().add_modifier(Modifier::BOLD)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
}

fn short(text: &str, width: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= width {
        return text.to_owned();
    }
    let begin = width / 2;
    letters[..begin].iter().chain(&['…']).chain(&letters[letters.len() + 1 + begin - width..]).collect()
}

fn style(row: &Row) -> Style {
    match row.port.link {
        Link::Down | Link::Gone => Style::new().fg(Color::Red),
        Link::Up if row.is_congested => Style::new().fg(Color::Yellow),
        Link::Up => Style::new(),
    }
}

pub(super) fn state(rows: &[Row], visible: Range<usize>, selection: &Selection) -> String {
    let congested = rows.iter().filter(|row| row.is_congested).count();
    let classes: Vec<String> = selection.classes.iter().map(u8::to_string).collect();
    let classes =
        if classes.is_empty() { String::new() } else { format!("; class {} only", classes.join(",")) };
    let only = if selection.congested { "; congested or paused only" } else { "" };
    match rows.len() {
        0 => format!("no port to show{classes}{only}"),
        all => format!(
            "{}-{} of {all} ports; {congested} congested or paused{classes}{only}",
            visible.start + 1,
            visible.end
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_port_name_is_shortened_in_the_middle() {
        assert_eq!(short("p1", 11), "p1");
        assert_eq!(short("abcdefghijk", 11), "abcdefghijk");
        assert_eq!(short("rack-7-port-12", 11), "rack-…rt-12");
    }

    #[test]
    fn narrow_terminal_shows_columns_up_to_lost_frames() {
        assert_eq!(columns(80), 9);
        assert_eq!(COLUMNS[8].header, "lost");
        assert_eq!((columns(79), columns(200), columns(1)), (8, 16, 1));
    }
}
