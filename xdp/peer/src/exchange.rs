//! Forwarder without switching, over xoff's ring traits. It reads no byte of a frame, so its speeds with xoff's rings
//! and with those of `xsk-rs` differ only by the rings' cost.

use std::io;
use std::os::fd::AsFd;

use xoff_xdp::bare::{
    self, CompletionRing, FillRing, Kick, RxRing, Socket, TxRing, XskCompletion, XskFill, XskRx, XskTx,
};

use crate::error::BenchError;
use crate::ports::{BATCH_U32, PortSettings, Program, attach};

const REFILL: u32 = 64;

pub struct Interface<R, F, T, C> {
    pub device: String,
    pub rx: R,
    pub fill: F,
    pub tx: T,
    pub completion: C,
    pub entries: u32,
    /// Number of chunks that the kernel may fill, or that are in the RX ring.
    pub receiving: u32,
    /// Number of chunks that the kernel is to send, or that are in the completion ring.
    pub sending: u32,
}

impl<R: RxRing, F: FillRing, T: TxRing, C: CompletionRing> Interface<R, F, T, C> {
    #[inline]
    fn forward(&mut self, to: &mut Self, free: &mut Vec<u32>) -> Result<(), BenchError> {
        to.sending -= to.completion.completed(|slot| free.push(slot));
        let count = self.rx.available().min(to.entries - to.sending).min(BATCH_U32);
        for at in 0..count {
            to.tx.push(self.rx.peek(at));
        }
        self.rx.release(count);
        self.receiving -= count;
        to.sending += count;
        to.flush()?;
        self.refill(free);
        Ok(())
    }

    #[inline]
    fn flush(&mut self) -> Result<(), BenchError> {
        self.tx.submit();
        while self.tx.needs_kick() && self.tx.unsent() > 0 {
            let source = match self.tx.kick() {
                Kick::Dropped => continue, // the kernel has dropped this frame; try the next
                Kick::Done | Kick::Busy | Kick::Down => break,
                Kick::Gone => io::ErrorKind::NotConnected.into(),
                Kick::Failed(errno) => io::Error::from_raw_os_error(errno),
            };
            return Err(BenchError::Kick { device: self.device.clone(), source });
        }
        Ok(())
    }

    #[inline]
    fn refill(&mut self, free: &mut Vec<u32>) {
        if self.entries - self.receiving < REFILL {
            return;
        }
        while self.receiving < self.entries
            && let Some(slot) = free.pop()
        {
            self.fill.push(slot);
            self.receiving += 1;
        }
        self.fill.submit();
    }
}

pub struct Exchange<R, F, T, C> {
    // Declared before the sockets, so that the XDP programs are detached before the sockets close.
    _programs: [Program; 2],
    interfaces: [Interface<R, F, T, C>; 2],
    free: Vec<u32>,
}

impl<R: RxRing + AsFd, F: FillRing, T: TxRing, C: CompletionRing> Exchange<R, F, T, C> {
    /// Divides `chunks` chunks between the interfaces, and attaches their XDP programs. From then on, frames
    /// arrive.
    pub fn begin(mut interfaces: [Interface<R, F, T, C>; 2], chunks: u32) -> Result<Self, BenchError> {
        let mut free = (0..chunks).rev().collect();
        interfaces.iter_mut().for_each(|interface| interface.refill(&mut free));
        let [one, two] = &interfaces;
        let programs =
            [attach(&one.device, Some(one.rx.as_fd()))?, attach(&two.device, Some(two.rx.as_fd()))?];
        Ok(Exchange { _programs: programs, interfaces, free })
    }

    pub fn run(&mut self) -> BenchError {
        let Exchange { interfaces: [one, two], free, .. } = self;
        loop {
            if let Err(error) = one.forward(two, free).and_then(|()| two.forward(one, free)) {
                return error;
            }
        }
    }
}

pub fn with_own_rings(
    devices: [&str; 2],
) -> Result<Exchange<XskRx, XskFill, XskTx, XskCompletion>, BenchError> {
    let entries = PortSettings::default().ring;
    let chunks = 4 * entries;
    let [one, two] = bare::open(devices, entries, chunks)?;
    let interface = |device: &str, socket: Socket| {
        let Socket { rx, fill, tx, completion } = socket;
        Interface { device: device.to_owned(), rx, fill, tx, completion, entries, receiving: 0, sending: 0 }
    };
    Exchange::begin([interface(devices[0], one), interface(devices[1], two)], chunks)
}
