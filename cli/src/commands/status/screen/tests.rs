// Tests for SPECIFICATION.md: status

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::super::tables::tests::status;
use super::*;
use xoff_switch::control::status::Status;

fn switch(ports: usize) -> (Status, Status) {
    let mut before = status();
    let mut idle = before.ports[1].clone();
    for class in &mut idle.classes {
        (class.pause_sent.now, class.pause_received.now) = (false, false);
        (class.ingress.bytes, class.egress.bytes, class.egress.halts.now) = (0, 0, false);
        class.watchdog = None;
        class.drops.clear();
        class.lost = 0;
    }
    before.ports = (1..=ports)
        .map(|number| {
            let mut port = idle.clone();
            (port.name, port.device) = (format!("p{number}"), format!("eth{number}"));
            port
        })
        .collect();
    let mut now = before.clone();
    now.uptime_nanos += 1_000_000_000;
    (now, before)
}

fn fill(status: &mut Status, before: &Status) {
    let seconds = (status.uptime_nanos - before.uptime_nanos) / 1_000_000_000;
    let bytes = 999_000_000_000 / 8 / 8 * seconds;
    for (port, past) in status.ports.iter_mut().zip(&before.ports) {
        port.name = format!("a-rather-long-name-of-port-{}", port.name);
        for (class, past) in port.classes.iter_mut().zip(&past.classes) {
            (class.rx_bytes, class.tx_bytes) = (past.rx_bytes + bytes, past.tx_bytes + bytes);
            (class.ingress.bytes, class.egress.bytes, class.lost) =
                (999_499_999, 999_499_999 / 8, 999_400_000 / 8);
            class.ingress.headroom_free_recent_bytes = Some(999_499_999);
            class.pause_sent.nanos += 1_000_000_000;
            class.pause_received.nanos += 1_000_000_000;
        }
    }
}

fn screen(now: Status, before: Option<Status>) -> Screen {
    let switches = vec![("http://here".to_owned(), Ok((now, before)))];
    Screen::new(Look::Switches(switches), Selection::default())
}

fn drawn(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
    let mut terminal =
        Terminal::new(TestBackend::new(width, height)).expect("the test terminal cannot be created");
    terminal.draw(|frame| screen.draw(frame)).expect("the screen cannot be drawn");
    let cells = terminal.backend().buffer().content().chunks(width.into());
    cells
        .map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned())
        .collect()
}

fn press(screen: &mut Screen, keys: &[KeyCode]) {
    for &key in keys {
        assert!(screen.press(KeyEvent::from(key)).is_continue(), "{key:?} ends it");
    }
}

#[test]
fn congested_ports_are_listed_first() {
    let (mut now, before) = switch(32);
    let class = &mut now.ports[19].classes[3];
    class.pause_sent.nanos += 500_000_000;
    class.rx_bytes += 12_500_000;
    let lines = drawn(&mut screen(now, Some(before)), 80, 24);
    assert!(lines[0].starts_with("s1: NOT LOSSLESS: "), "{lines:#?}");
    let at = |name: &str| lines.iter().position(|line| line.split(' ').next() == Some(name));
    let head = at("port").expect("no header line");
    assert!(lines[head].ends_with("lost"), "the last column is not `lost`: {lines:#?}");
    assert_eq!((at("p20"), at("p1"), at("p2")), (Some(head + 1), Some(head + 2), Some(head + 3)));
    let first = &lines[head + 1];
    assert!(first.contains("100 Mb/s") && first.contains("3 50%"), "{first}");
    let last = lines[22].clone();
    assert!(last.starts_with("1-") && last.contains(" of 32 ports; 1 congested or paused"), "{last}");
    assert!(lines[23].ends_with("q quit"), "{lines:#?}");
}

#[test]
fn narrow_terminal_shortens_port_names_but_no_numbers() {
    let (mut now, before) = switch(3);
    fill(&mut now, &before);
    let mut past = before.clone();
    past.ports.iter_mut().zip(&now.ports).for_each(|(past, now)| past.name.clone_from(&now.name));
    let lines = drawn(&mut screen(now.clone(), Some(past.clone())), 80, 24);
    let line = lines.iter().find(|line| line.starts_with("a-rat…")).expect("no line has a shortened name");
    for text in ["999 Gb/s  999 Gb/s", " 999 MB   999 MB", "8 cl 100% 8 cl 100%", "999 M"] {
        assert!(line.contains(text), "no {text} in {line}");
    }
    let lines = drawn(&mut screen(now, Some(past)), 220, 24);
    for text in ["device", "XDP", "delay p99", "PFC out", "eth1", "generic, copy"] {
        assert!(lines.iter().any(|line| line.contains(text)), "no {text} in {lines:#?}");
    }
}

#[test]
fn keyboard_scrolls_table_and_opens_and_closes_port_screen() {
    let (now, before) = switch(64);
    let mut screen = screen(now, Some(before));
    let has = |lines: &[String], name: &str| lines.iter().any(|line| line.starts_with(&format!("{name} ")));
    let lines = drawn(&mut screen, 80, 24);
    assert!(has(&lines, "p1") && !has(&lines, "p64"), "{lines:#?}");
    press(&mut screen, &[KeyCode::End]);
    assert!(has(&drawn(&mut screen, 80, 24), "p64"));
    press(&mut screen, &[KeyCode::Home, KeyCode::PageDown, KeyCode::Down]);
    let lines = drawn(&mut screen, 80, 24);
    press(&mut screen, &[KeyCode::Enter]);
    let one = drawn(&mut screen, 80, 24);
    let (name, _) = one[0].split_once(' ').expect("the first line has no port name");
    assert!(has(&lines, name), "{name} was on the page: {lines:#?}");
    assert!(one.iter().any(|line| line.starts_with("3 lossless")), "{one:#?}");
    assert!(one[23].starts_with("Esc all ports"), "{one:#?}");
    press(&mut screen, &[KeyCode::Esc]);
    assert_eq!(drawn(&mut screen, 80, 24), lines);
    assert!(screen.press(KeyEvent::from(KeyCode::Char('q'))).is_break());
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert!(screen.press(interrupt).is_break());
}

#[test]
fn keyboard_selects_congested_ports_and_classes() {
    let (mut now, before) = switch(4);
    now.ports[2].classes[3].pause_received.now = true;
    let mut screen = screen(now, Some(before));
    let names = |lines: &[String]| {
        let names = lines.iter().filter_map(|line| line.split(' ').next());
        names.filter(|name| name.len() == 2 && name.starts_with('p')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(names(&drawn(&mut screen, 80, 24)), ["p3", "p1", "p2", "p4"]);
    press(&mut screen, &[KeyCode::Char('c')]);
    assert_eq!(names(&drawn(&mut screen, 80, 24)), ["p3"]);
    press(&mut screen, &[KeyCode::Char('4')]);
    let lines = drawn(&mut screen, 80, 24);
    assert!(
        lines.contains(&"no port to show; class 4 only; congested or paused only".to_owned()),
        "{lines:#?}"
    );
    press(&mut screen, &[KeyCode::Char('4'), KeyCode::Char('3'), KeyCode::Enter]);
    let lines = drawn(&mut screen, 80, 24);
    let classes = lines.iter().filter(|line| line.ends_with("30.0 kB")).count();
    assert_eq!(classes, 1, "{lines:#?}");
    press(&mut screen, &[KeyCode::Esc, KeyCode::Char('a')]);
    assert_eq!(names(&drawn(&mut screen, 80, 24)).len(), 4);
}

#[test]
fn port_screen_shows_pause_cause_and_drops() {
    let (now, before) = (status(), { status() });
    let mut screen =
        screen(now, Some(Status { uptime_nanos: before.uptime_nanos - 1_000_000_000, ..before }));
    press(&mut screen, &[KeyCode::Enter]);
    let lines = drawn(&mut screen, 80, 40);
    let text = lines.join("\n");
    for words in
        ["class 3 paused its peer: 2 x, 1.25 s, NOW (egress right)", "dropped 3 hairpin", "rx_ring_full 2"]
    {
        assert!(text.contains(words), "no {words} in\n{text}");
    }
}

#[test]
fn text_view_scrolls_in_both_axes_up_to_its_ends() {
    let line = |number: usize| format!("{number:>3} {}", "x".repeat(100));
    let text = (1..=40).map(line).collect::<Vec<_>>().join("\n");
    let mut screen = Screen::new(Look::Text(text), Selection::default());
    assert!(drawn(&mut screen, 80, 24)[0].starts_with("  1 x"));
    press(&mut screen, &[KeyCode::End]);
    let lines = drawn(&mut screen, 80, 24);
    assert!(lines[22].starts_with(" 40 x"), "{lines:#?}");
    press(&mut screen, &[KeyCode::Right; 9]);
    assert_eq!(drawn(&mut screen, 80, 24)[22], "x".repeat(80));
    press(&mut screen, &[KeyCode::Home, KeyCode::Left, KeyCode::Left, KeyCode::Left]);
    assert!(drawn(&mut screen, 80, 24)[0].starts_with("  1 x"));
}

#[test]
fn screen_keeps_latest_rows_of_switch_that_does_not_reply() {
    let (now, before) = switch(2);
    let mut screen = screen(now, Some(before));
    screen.take(Err(StatusError::None("/run/xoff")));
    let lines = drawn(&mut screen, 80, 24);
    assert!(lines[0].starts_with("no switch has a socket in /run/xoff"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("p2 ")), "{lines:#?}");
}
