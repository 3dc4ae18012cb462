use xoff_dataplane::frame::{FRAME_MAX, Frame};
use xoff_host::payload::{self, Parsed};
use xoff_host::{Gate, Obedience, habits};
use xoff_wire::mac_control::DESTINATION;
use xoff_wire::units::{BitRate, Bytes, Class, ClassSet, MacAddr, Nanos};
use xoff_wire::{Header, MacControl};
use xoff_xdp::clock::now;

use super::line::Line;
use super::pace::Pace;
use super::records::{Arrival, ControlFrame, OTHER_BYTES_MAX, OtherFrame, StreamId};
use super::stream::{self, Endpoints};
use super::timeline::SentControl;
use super::{Moment, OpenError};
use crate::setup::PortSettings;

const CONTROLS_MAX: usize = 100_000;
const OTHERS_MAX: usize = 10_000;
const ROUNDS_MAX: usize = 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reaction {
    #[default]
    Obey,
    Ignore,
}

#[derive(Debug)]
pub struct TestPort {
    pub settings: PortSettings,
    pub arrivals: Vec<Arrival>,
    pub controls: Vec<ControlFrame>,
    pub others: Vec<OtherFrame>,
    pub(super) sent: Vec<SentControl>,
    pub keeps_arrivals: bool,
    pub reaction: Reaction,
    /// True if the port obeys PFC and received invalid PFC, or PAUSE.
    pub(super) has_invalid_pfc: bool,
    pub(super) line: Line,
    /// Frames received without a kernel timestamp since the port was opened.
    pub(super) unstamped: u64,
    gate: Gate,
    polled: Nanos,
    pace: Pace,
    commit: Bytes,
    frames: Vec<(Frame, Option<Nanos>)>,
    whole: Vec<u8>,
}

impl TestPort {
    pub(super) fn open(settings: &PortSettings) -> Result<TestPort, OpenError> {
        Ok(TestPort::new(settings, Line::open(settings)?))
    }

    pub(super) fn new(settings: &PortSettings, line: Line) -> TestPort {
        let settings = PortSettings { mac: Some(settings.mac.unwrap_or(line.address())), ..settings.clone() };
        TestPort {
            arrivals: Vec::new(),
            controls: Vec::new(),
            others: Vec::new(),
            sent: Vec::new(),
            keeps_arrivals: true,
            reaction: Reaction::Obey,
            has_invalid_pfc: false,
            unstamped: 0,
            gate: Gate::new(settings.speed, Obedience::Obey, false),
            polled: now(),
            pace: Pace::new(settings.speed),
            commit: habits::commit(settings.speed),
            frames: Vec::with_capacity(line.receive_max()),
            whole: vec![0; FRAME_MAX as usize],
            settings,
            line,
        }
    }

    #[must_use]
    pub fn mac(&self) -> MacAddr {
        self.settings.mac.unwrap_or_default()
    }

    #[must_use]
    pub fn speed(&self) -> BitRate {
        self.settings.speed
    }

    /// Calls `note` with each received frame of a stream, its endpoints and the time at which it was sent.
    pub(super) fn receive(
        &mut self,
        epoch: u16,
        mut note: impl FnMut(&mut Arrival, Option<Endpoints>, Nanos),
    ) {
        // Several ports may send more frames to this one than a round receives.
        let earliest = self.polled;
        for _ in 0..ROUNDS_MAX {
            let begin = now();
            let is_more = self.line.receive(&mut self.frames);
            let polled = Moment { earliest, latest: now() };
            let mut frames = std::mem::take(&mut self.frames);
            for (frame, stamp) in frames.drain(..) {
                let stamped = stamp.and_then(|stamp| polled.stamped(stamp));
                self.unstamped += u64::from(stamped.is_none());
                self.record(&frame, stamped.unwrap_or(polled), epoch, &mut note);
                self.line.free(frame);
            }
            self.frames = frames;
            if !is_more {
                self.polled = begin;
                break;
            }
        }
    }

    fn record(
        &mut self,
        frame: &Frame,
        when: Moment,
        epoch: u16,
        note: &mut impl FnMut(&mut Arrival, Option<Endpoints>, Nanos),
    ) {
        let head = self.line.head(frame);
        let Ok(header) = Header::parse(head) else { return };
        if MacControl::is_mac_control(&header) {
            let content = MacControl::parse(&header, head);
            self.gate.receive(now(), &header, head); // obeyed from now on, so that no frame leaves too early
            let bytes = head[..head.len().min(frame.len() as usize)].to_vec();
            let control = ControlFrame { when, bytes, content };
            self.has_invalid_pfc |= !control.is_valid() && self.reaction == Reaction::Obey;
            if self.controls.len() < CONTROLS_MAX {
                self.controls.push(control);
            }
            return;
        }
        match payload::parse(&header, head, frame.len() as usize) {
            Parsed::Data(data) if data.stamp.sender == epoch => {
                let stamp_end = frame.len() as usize - data.payload + payload::STAMP_LEN;
                let stored = match head.get(..frame.len() as usize) {
                    Some(stored) => stored,
                    None => {
                        let len = self.line.read(frame, &mut self.whole);
                        &self.whole[..len]
                    }
                };
                let mut arrival = Arrival {
                    when,
                    stream: StreamId(data.stamp.stream),
                    sequence: data.stamp.sequence,
                    class: data.stamp.class,
                    tag: data.tag,
                    dscp: data.dscp,
                    ecn: data.ecn,
                    len: frame.len(),
                    is_intact: stream::is_intact(data.stamp.sequence, stamp_end, stored),
                };
                note(&mut arrival, stream::endpoints(&header, stored), data.stamp.sent);
                if self.keeps_arrivals {
                    self.arrivals.push(arrival);
                }
            }
            Parsed::Data(_) => {} // sent in an earlier case
            Parsed::Corrupt | Parsed::Other => {
                self.has_invalid_pfc |= header.dst == DESTINATION && self.reaction == Reaction::Obey;
                if self.others.len() < OTHERS_MAX {
                    let len = head.len().min(frame.len() as usize).min(OTHER_BYTES_MAX);
                    self.others.push(OtherFrame { when, bytes: head[..len].to_vec() });
                }
            }
        }
    }

    pub(super) fn paused(&mut self, now: Nanos) -> ClassSet {
        let paused = self.gate.paused(now);
        match self.reaction {
            Reaction::Obey => paused,
            Reaction::Ignore => ClassSet::NONE,
        }
    }

    /// Also considers pauses that the port ignores.
    pub(super) fn is_free(&mut self, now: Nanos) -> bool {
        self.gate.paused(now).is_empty()
    }

    pub(super) fn has_room(&self, now: Nanos, class: Class) -> bool {
        self.pace.free() <= now && self.line.has_room(class, self.commit)
    }

    pub(super) fn line_free(&self) -> Nanos {
        self.pace.free()
    }

    pub(super) fn send(&mut self, now: Nanos, class: Class, len: u32, write: impl FnOnce(&mut [u8])) -> bool {
        if !self.line.send(class, len, &mut self.whole, write) {
            return false;
        }
        self.pace.send(now, Bytes::on_line(len));
        true
    }

    pub(super) fn forget(&mut self) {
        self.arrivals.clear();
        self.controls.clear();
        self.others.clear();
        self.sent.clear();
        self.keeps_arrivals = true;
        self.reaction = Reaction::Obey;
        self.has_invalid_pfc = false;
    }

    pub(super) fn end_pauses(&mut self, now: Nanos) {
        self.gate.link_lost(now);
    }
}
