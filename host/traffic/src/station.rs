//! Network interface opened by AF_XDP, with its own memory for whole frames.

use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use xoff_config::shell::Chunks;
use xoff_dataplane::driver::Port as _;
use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_host::report::DropReport;
use xoff_wire::units::{Bytes, MacAddr, Nanos, PortId};
use xoff_xdp::{Facts, Port, PortDriver as _, PortOptions, ReceiveChunks, Rings, Store, XdpError, ZeroCopy};

use xoff_xdp::sleeper::duplicates;

const RECEIVE_MAX: u32 = 64;

#[derive(Debug)]
pub struct Station {
    port: Port,
    store: Store,
    committed: Bytes,
}

impl Station {
    /// Opens `device` with rings of `ring` entries. The frame memory has `ring` chunks per receive queue, `ring` for
    /// frames to send, and `ring` for received frames still in use.
    pub fn open(device: &str, ring: u32) -> Result<Station, XdpError> {
        Station::with(device, ring, ReceiveChunks::Whole)
    }

    /// Opens `device` as [`Station::open`] does, and has received frames time-stamped for [`Station::receive_stamped`].
    pub fn open_stamped(device: &str, ring: u32) -> Result<Station, XdpError> {
        Station::with(device, ring, ReceiveChunks::Stamped)
    }

    fn with(device: &str, ring: u32, receive_size: ReceiveChunks) -> Result<Station, XdpError> {
        let chunks = Chunks::for_mtu(xoff_xdp::mtu(device)?);
        let options = PortOptions {
            device: device.to_owned(),
            queues: None,
            mode: None,
            zero_copy: ZeroCopy::Auto,
            rings: Rings { fill: ring, rx: ring, tx: ring, completion: ring },
            chunk_bytes: chunks.bytes,
            multi_buffer: chunks.multi_buffer,
            receive_size,
            receive_chunks: ring,
            window: ring,
            transmit_chunks: ring,
        };
        let frames = (xoff_xdp::rx_queues(device)? + 2) * ring;
        let mut store = Store::with_frames(frames);
        let port = Port::open(&mut store, PortId(0), &options)?;
        Ok(Station { port, store, committed: Bytes::ZERO })
    }

    #[must_use]
    pub fn facts(&self) -> &Facts {
        self.port.facts()
    }

    #[must_use]
    pub fn address(&self) -> MacAddr {
        self.port.facts().mac
    }

    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }

    #[must_use]
    pub fn receive_max(&self) -> usize {
        (RECEIVE_MAX * self.facts().queues) as usize
    }

    /// Receives frames, and refills the receive ring. Returns whether more frames may be pending.
    #[inline]
    pub fn receive(&mut self, frames: &mut Vec<Frame>) -> bool {
        let received = self.port.receive(&mut self.store, RECEIVE_MAX, |_, frame| frames.push(frame));
        self.port.refill(&mut self.store);
        received >= RECEIVE_MAX
    }

    /// Receives frames like [`Station::receive`], each with the time at which the kernel got it, if the frame has a
    /// [stamp](Store::take_stamp).
    pub fn receive_stamped(&mut self, frames: &mut Vec<(Frame, Option<Nanos>)>) -> bool {
        let received = self.port.receive(&mut self.store, RECEIVE_MAX, |store, frame| {
            let stamp = store.take_stamp(&frame);
            frames.push((frame, stamp));
        });
        self.port.refill(&mut self.store);
        received >= RECEIVE_MAX
    }

    /// Allocates a frame. Returns `None` while too many frames are in the kernel.
    #[inline]
    pub fn allocate(&mut self, len: u32) -> Option<Frame> {
        self.port.compose(&mut self.store, len)
    }

    /// Queues a frame for the next [`Station::flush`].
    ///
    /// # Panics
    /// If the interface [was removed](Station::is_removed).
    #[inline]
    pub fn send(&mut self, frame: Frame) {
        let len = frame.len();
        match self.port.send(&mut self.store, frame) {
            Ok(()) => self.committed += Bytes::on_line(len),
            Err(frame) => {
                self.store.free(frame);
                unreachable!(
                    "the port must accept a frame from its own store, unless its interface was removed"
                );
            }
        }
    }

    #[inline]
    pub fn flush(&mut self) {
        if self.committed == Bytes::ZERO {
            return;
        }
        self.port.flush(); // also after a flush that found the device down: it may be up again
        let mut bytes = Bytes::ZERO;
        self.port.reap(&mut self.store, |store, frame| {
            bytes += Bytes::on_line(frame.len());
            store.free(frame);
        });
        self.committed = self.committed.saturating_sub(bytes);
    }

    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.port.is_removed()
    }

    /// Returns the bytes in the kernel, preambles and gaps included, which can no longer be paused.
    #[must_use]
    pub const fn committed(&self) -> Bytes {
        self.committed
    }

    pub fn wakers(&self) -> io::Result<Vec<OwnedFd>> {
        duplicates(self.port.sockets())
    }

    #[must_use]
    pub fn drops(&self) -> DropReport {
        let monitor = self.port.monitor();
        let (xdp, device) = (monitor.xdp_statistics(), monitor.device_drops());
        let unread =
            xdp.as_ref().err().map(|error| format!("the counters of AF_XDP sockets cannot be read: {error}"));
        let unread = unread.into_iter().chain(device.as_ref().err().map(ToString::to_string)).collect();
        let (xdp, device) = (xdp.unwrap_or_default(), device.unwrap_or_else(|unread| unread.last));
        let of_xdp = xdp.drops().into_iter().map(|(name, frames)| (name.to_owned(), frames));
        let of_device = device.losses().into_iter().map(|(name, frames)| (format!("device_{name}"), frames));
        let counters = of_xdp.chain(of_device).filter(|&(_, frames)| frames > 0).collect();
        DropReport { total: xdp.lost() + device.lost(), counters, unread }
    }
}

pub fn nap(span: Nanos) {
    thread::sleep(Duration::from_nanos(span.0));
}
