//! `xoff status --watch` on a terminal: a table of ports, and a screen for a single port.
//!
//! Queries, keys and drawing have a thread each: keys work while a switch does not reply, and the command ends
//! when it loses its terminal.

mod detail;
mod ports;

use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, TableState};

use self::ports::Row;
use super::ask::StatusError;
use super::selection::Selection;
use super::{Args, Past, Picked};

const LOOK_EVERY: Duration = Duration::from_millis(100);
const STEP: u16 = 8;

pub(super) enum Look {
    Switches(Vec<(String, Result<Picked, StatusError>)>),
    Text(String),
}

pub(super) fn run(args: &Args, period: Duration) -> Result<(), StatusError> {
    let mut past = Past::new();
    let first = args.look(&mut past)?;
    let ended = Arc::new(AtomicBool::new(false));
    for signal in crate::cli::ending_signals() {
        signal_hook::flag::register(signal, Arc::clone(&ended))?;
    }
    let (tell, events) = sync_channel(1);
    let keys = tell.clone();
    let args = args.clone();
    let mut screen = Screen::new(first, Selection { ports: Vec::new(), ..args.selection() });
    let ask = move || {
        loop {
            thread::sleep(period);
            if tell.send(ScreenEvent::Look(args.look(&mut past))).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("xoff-ask".into()).spawn(ask)?;
    let mut terminal = ratatui::try_init()?;
    let read = move || while event::read().is_ok_and(|event| keys.send(ScreenEvent::Event(event)).is_ok()) {};
    thread::Builder::new().name("xoff-keys".into()).spawn(read)?;
    let result = screen.live(&mut terminal, &events, &ended);
    ratatui::try_restore()?;
    Ok(result?)
}

enum ScreenEvent {
    Look(Result<Look, StatusError>),
    Event(Event),
}

fn is_terminal_closed() -> bool {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::empty())];
    poll(&mut fds, PollTimeout::ZERO).is_ok_and(|count| count > 0)
}

type Place = (String, String);

struct Screen {
    look: Look,
    trouble: Option<String>,
    selection: Selection,
    chosen: Option<Place>,
    is_open: bool,
    table: TableState,
    scroll: (u16, u16),
    page: u16,
}

impl Screen {
    fn new(look: Look, selection: Selection) -> Screen {
        let table = TableState::default();
        Screen {
            look,
            trouble: None,
            selection,
            chosen: None,
            is_open: false,
            table,
            scroll: (0, 0),
            page: 1,
        }
    }

    fn live(
        &mut self,
        terminal: &mut ratatui::DefaultTerminal,
        events: &Receiver<ScreenEvent>,
        ended: &AtomicBool,
    ) -> io::Result<()> {
        terminal.draw(|frame| self.draw(frame))?;
        while !ended.load(Relaxed) && !is_terminal_closed() {
            match events.recv_timeout(LOOK_EVERY) {
                Ok(ScreenEvent::Look(look)) => self.take(look),
                Ok(ScreenEvent::Event(Event::Key(key))) if key.kind != KeyEventKind::Release => {
                    if self.press(key).is_break() {
                        return Ok(());
                    }
                }
                Ok(ScreenEvent::Event(_)) => (), // such as a resize
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            terminal.draw(|frame| self.draw(frame))?;
        }
        Ok(())
    }

    fn take(&mut self, look: Result<Look, StatusError>) {
        match look {
            Ok(look) => (self.look, self.trouble) = (look, None),
            Err(error) => self.trouble = Some(error.to_string()),
        }
    }

    fn press(&mut self, key: KeyEvent) -> ControlFlow<()> {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('q') => return ControlFlow::Break(()),
            KeyCode::Char('c') if is_control => return ControlFlow::Break(()),
            KeyCode::Char('c') => self.selection.congested = !self.selection.congested,
            KeyCode::Char('a') => self.selection = Selection::default(),
            KeyCode::Char(digit @ '0'..='7') => self.toggle(digit as u8 - b'0'),
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::PageUp => self.go(-i32::from(self.page)),
            KeyCode::PageDown | KeyCode::Char(' ') => self.go(i32::from(self.page)),
            KeyCode::Home | KeyCode::Char('g') => self.go(i32::MIN / 2),
            KeyCode::End | KeyCode::Char('G') => self.go(i32::MAX / 2),
            KeyCode::Enter => self.open(),
            KeyCode::Esc | KeyCode::Backspace => (self.is_open, self.scroll) = (false, (0, 0)),
            KeyCode::Left => self.scroll.1 = self.scroll.1.saturating_sub(STEP),
            KeyCode::Right => self.scroll.1 = self.scroll.1.saturating_add(STEP),
            _ => (),
        }
        ControlFlow::Continue(())
    }

    fn toggle(&mut self, class: u8) {
        let classes = &mut self.selection.classes;
        match classes.iter().position(|it| *it == class) {
            Some(at) => drop(classes.remove(at)),
            None => classes.push(class),
        }
    }

    fn go(&mut self, lines: i32) {
        if self.is_open || matches!(self.look, Look::Text(_)) {
            let at = i32::from(self.scroll.0).saturating_add(lines);
            self.scroll.0 = u16::try_from(at.max(0)).unwrap_or(u16::MAX);
            return;
        }
        let rows = self.rows();
        let last = rows.len().saturating_sub(1);
        let at = match self.chosen(&rows) {
            None if lines > 1 => i32::try_from(last).unwrap_or(i32::MAX).min(lines - 1),
            None => 0,
            Some(at) => i32::try_from(at).unwrap_or(i32::MAX).saturating_add(lines).max(0),
        };
        let at = usize::try_from(at).unwrap_or(0).min(last);
        self.chosen = rows.get(at).map(|row| row.place.clone());
    }

    fn open(&mut self) {
        let rows = self.rows();
        if self.chosen(&rows).is_none() {
            self.chosen = rows.first().map(|row| row.place.clone());
        }
        (self.is_open, self.scroll) = (self.chosen.is_some(), (0, 0));
    }

    fn chosen(&self, rows: &[Row]) -> Option<usize> {
        rows.iter().position(|row| self.chosen.as_ref() == Some(&row.place))
    }

    fn rows(&self) -> Vec<Row> {
        match &self.look {
            Look::Switches(switches) => ports::rows(switches, &self.selection),
            Look::Text(_) => Vec::new(),
        }
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        match &self.look {
            Look::Switches(_) if self.is_open => self.draw_port(frame),
            Look::Switches(_) => self.draw_ports(frame),
            Look::Text(text) => {
                let lines: Vec<String> = text.lines().map(str::to_owned).collect();
                self.draw_text(frame, lines, "arrows and Page keys move  q quit");
            }
        }
    }

    fn draw_ports(&mut self, frame: &mut Frame<'_>) {
        let Look::Switches(switches) = &self.look else { return };
        let rows = ports::rows(switches, &self.selection);
        let heads = ports::heads(switches, self.trouble.as_deref());
        let tall = |lines: usize| Constraint::Length(u16::try_from(lines).unwrap_or(u16::MAX));
        let layout = [tall(heads.len().min(4)), Constraint::Min(2), Constraint::Length(2)];
        let [head, body, foot] = Layout::vertical(layout).areas(frame.area());
        frame.render_widget(Paragraph::new(heads.into_iter().map(Line::from).collect::<Vec<_>>()), head);
        self.page = body.height.saturating_sub(1).max(1);
        self.table.select(self.chosen(&rows));
        if self.chosen.is_none() {
            *self.table.offset_mut() = 0;
        }
        frame.render_stateful_widget(ports::table(&rows, body.width), body, &mut self.table);
        let first = self.table.offset();
        let last = rows.len().min(first + usize::from(self.page));
        let state = ports::state(&rows, first..last, &self.selection);
        let keys = "arrows, Page keys  Enter one port  c congested  0-7 class  a all  q quit";
        frame.render_widget(Text::from(vec![Line::from(state), bar(keys)]), foot);
    }

    fn draw_port(&mut self, frame: &mut Frame<'_>) {
        let width = usize::from(frame.area().width);
        let Look::Switches(switches) = &self.look else { return };
        // Show the port even if it is not congested, because the user has chosen it.
        let all = Selection { congested: false, ..self.selection.clone() };
        let rows = ports::rows(switches, &all);
        let mut lines = match self.chosen(&rows) {
            Some(at) => detail::lines(&rows[at], width),
            None => vec!["the port has been removed".to_owned()],
        };
        if let Some(trouble) = &self.trouble {
            lines.insert(0, trouble.clone());
        }
        self.draw_text(frame, lines, "Esc all ports  arrows and Page keys move  0-7 class  a all  q quit");
    }

    fn draw_text(&mut self, frame: &mut Frame<'_>, lines: Vec<String>, keys: &'static str) {
        let [body, foot] = Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(frame.area());
        self.page = body.height.max(1);
        let most = |all: usize, visible: u16| u16::try_from(all).unwrap_or(u16::MAX).saturating_sub(visible);
        let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        let (down, aside) = self.scroll;
        self.scroll = (down.min(most(lines.len(), body.height)), aside.min(most(widest, body.width)));
        let text = Text::from(lines.into_iter().map(Line::from).collect::<Vec<_>>());
        frame.render_widget(Paragraph::new(text).scroll(self.scroll), body);
        frame.render_widget(Text::from(bar(keys)), foot);
    }
}

fn bar(keys: &'static str) -> Line<'static> {
    Line::styled(keys, Style::new().add_modifier(Modifier::DIM))
}

#[cfg(test)]
mod tests;
