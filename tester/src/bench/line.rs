//! Path of a test port's frames to the line: AF_XDP, or the kernel's queues if this machine's NIC is under test.

use std::io;
use std::os::fd::OwnedFd;

use xoff_dataplane::frame::{Frame, FrameStore as _};
use xoff_traffic::emit::Link;
use xoff_traffic::station::Station;
use xoff_wire::units::{Bytes, CLASSES, Class, MacAddr, Nanos};

use super::OpenError;
use crate::setup::{PortKind, PortSettings};

const RING: u32 = 4096;

#[derive(Debug)]
pub(super) enum Line {
    Station(Box<Station>),
    Kernel(Box<[KernelQueue; CLASSES]>),
    /// Discards all frames.
    Closed,
}

/// Packet socket of a class, and the frame that the kernel has not yet accepted, or no bytes.
#[derive(Debug)]
pub(super) struct KernelQueue {
    link: Link,
    pending: Vec<u8>,
}

impl Line {
    pub(super) fn open(settings: &PortSettings) -> Result<Line, OpenError> {
        Ok(match settings.kind {
            PortKind::Station => Line::Station(Box::new(Station::open_stamped(&settings.device, RING)?)),
            PortKind::Kernel => {
                let open =
                    || Link::open(&settings.device).map(|link| KernelQueue { link, pending: Vec::new() });
                let queues = (0..CLASSES).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
                let queues: Box<[KernelQueue; CLASSES]> =
                    queues.try_into().expect("each class has one queue");
                Line::Kernel(queues)
            }
        })
    }

    pub(super) fn address(&self) -> MacAddr {
        match self {
            Line::Station(station) => station.address(),
            Line::Kernel(queues) => queues[0].link.address(),
            Line::Closed => MacAddr::default(),
        }
    }

    pub(super) fn receive_max(&self) -> usize {
        match self {
            Line::Station(station) => station.receive_max(),
            Line::Kernel(_) | Line::Closed => 0,
        }
    }

    pub(super) fn receive(&mut self, frames: &mut Vec<(Frame, Option<Nanos>)>) -> bool {
        match self {
            Line::Station(station) => station.receive_stamped(frames),
            Line::Kernel(_) | Line::Closed => false,
        }
    }

    /// Returns the first bytes of a received frame; all bytes of a MAC control frame.
    pub(super) fn head(&self, frame: &Frame) -> &[u8] {
        match self {
            Line::Station(station) => station.store().head(frame),
            Line::Kernel(_) | Line::Closed => &[],
        }
    }

    pub(super) fn read(&self, frame: &Frame, into: &mut [u8]) -> usize {
        match self {
            Line::Station(station) => station.store().read(frame, into),
            Line::Kernel(_) | Line::Closed => 0,
        }
    }

    pub(super) fn free(&mut self, frame: Frame) {
        if let Line::Station(station) = self {
            station.store_mut().free(frame);
        }
    }

    /// Returns true if the line accepts a frame of `class` now: an AF_XDP line does while it has less than `commit` unsent bytes.
    pub(super) fn has_room(&self, class: Class, commit: Bytes) -> bool {
        match self {
            Line::Station(station) => station.committed() < commit,
            Line::Kernel(queues) => queues[class.index()].pending.is_empty(),
            Line::Closed => true,
        }
    }

    pub(super) fn send(
        &mut self,
        class: Class,
        len: u32,
        whole: &mut [u8],
        write: impl FnOnce(&mut [u8]),
    ) -> bool {
        match self {
            Line::Station(station) => {
                let Some(frame) = (!station.is_removed()).then(|| station.allocate(len)).flatten() else {
                    return false;
                };
                let head = station.store_mut().head_mut(&frame);
                if head.len() >= len as usize {
                    write(head);
                    station.send(frame);
                    return true;
                }
                // The frame needs several memory chunks. `write` counts it as sent, so first make and free an equally long frame.
                station.store_mut().free(frame);
                let bytes = &mut whole[..len as usize];
                let Some(frame) = station.store_mut().make(bytes) else { return false };
                station.store_mut().free(frame);
                write(bytes);
                let frame =
                    station.store_mut().make(bytes).expect("the chunks of the freed frame must be available");
                station.send(frame);
            }
            Line::Kernel(queues) => {
                let pending = &mut queues[class.index()].pending;
                pending.resize(len as usize, 0);
                write(pending);
            }
            Line::Closed => {}
        }
        true
    }

    pub(super) fn flush(&mut self) {
        match self {
            Line::Station(station) => station.flush(),
            Line::Kernel(queues) => queues.iter_mut().for_each(KernelQueue::flush),
            Line::Closed => {}
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        match self {
            Line::Station(station) => station.committed() == Bytes::ZERO || station.is_removed(),
            Line::Kernel(_) | Line::Closed => true,
        }
    }

    pub(super) fn is_removed(&self) -> bool {
        matches!(self, Line::Station(station) if station.is_removed())
    }

    pub(super) fn wakers(&self) -> io::Result<Vec<OwnedFd>> {
        match self {
            Line::Station(station) => station.wakers(),
            Line::Kernel(_) | Line::Closed => Ok(Vec::new()),
        }
    }

    pub(super) fn lost(&self) -> u64 {
        match self {
            Line::Station(station) => station.drops().total,
            Line::Kernel(_) | Line::Closed => 0,
        }
    }
}

impl KernelQueue {
    fn flush(&mut self) {
        if !self.pending.is_empty() && self.link.try_send(&self.pending).unwrap_or(true) {
            self.pending.clear();
        }
    }
}
