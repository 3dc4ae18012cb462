//! Traits of the kernel's four rings per socket.
//!
//! The process consumes from two rings, and produces into two. The latter always have room, because it gives no more
//! chunks than fit.

/// A chunk in a ring, with bytes of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Number of the chunk.
    pub chunk: u32,
    /// Offset in the chunk, in bytes.
    pub offset: u32,
    /// Bytes in the chunk; zero if they are not directly behind the headroom.
    pub len: u32,
    /// True if the frame continues in the next descriptor.
    pub more: bool,
}

/// Ring of chunks that the kernel has filled.
pub trait RxRing {
    /// Returns the entries.
    fn available(&mut self) -> u32;

    /// Returns entry number `n`.
    fn peek(&self, n: u32) -> Descriptor;

    /// Releases the first `n` entries.
    fn release(&mut self, n: u32);
}

/// Ring of chunks that the kernel may fill.
pub trait FillRing {
    /// Adds an entry for the next [`submit`](Self::submit).
    fn push(&mut self, chunk: u32);

    /// Submits the pushed entries.
    fn submit(&mut self);
}

/// Ring of chunks for the kernel to send.
pub trait TxRing {
    /// Adds an entry for the next [`submit`](Self::submit).
    fn push(&mut self, descriptor: Descriptor);

    /// Submits the pushed entries.
    fn submit(&mut self);

    /// Returns the submitted descriptors that the kernel has not taken.
    fn unsent(&self) -> u32;

    /// Returns true if the kernel sends only after a kick.
    fn needs_kick(&self) -> bool;

    /// Makes the kernel send.
    fn kick(&mut self) -> Kick;
}

/// Ring of sent chunks.
pub trait CompletionRing {
    /// Takes all entries out, calls `each`, and returns their number.
    fn completed(&mut self, each: impl FnMut(u32)) -> u32;
}

/// Result of a kick. Without zero copy, a kick sends until one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kick {
    /// The ring is empty, or the driver continues by itself.
    Done,
    /// EAGAIN, ENOBUFS: the driver has no room now; the rest stays in the ring.
    Busy,
    /// EBUSY: the kernel dropped a frame, and completes it as if sent.
    Dropped,
    /// ENETDOWN: the interface is down; everything stays in the ring.
    Down,
    /// ENXIO: the socket has no interface, and the kernel does not use its rings.
    Gone,
    /// Any other errno.
    Failed(i32),
}

#[cfg(test)]
pub(crate) mod memory {
    //! Rings in plain memory; the test plays the kernel's part.

    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::rc::Rc;

    use super::*;
    use crate::layout::HEADROOM;

    /// Rings of a socket, shared by clones.
    #[derive(Clone, Default)]
    pub(crate) struct Rings(Rc<RefCell<Inner>>);

    #[derive(Default)]
    pub(crate) struct Inner {
        pub(crate) size: usize,
        pub(crate) rx: VecDeque<Descriptor>,
        pub(crate) filling: Vec<u32>,
        pub(crate) fill: VecDeque<u32>,
        pub(crate) sending: Vec<Descriptor>,
        pub(crate) tx: VecDeque<Descriptor>,
        pub(crate) completion: VecDeque<u32>,
        /// Answers to the next kicks, then `Done`.
        pub(crate) answers: VecDeque<Kick>,
        pub(crate) kicks: u32,
        pub(crate) wire: Vec<Descriptor>,
    }

    impl Rings {
        pub(crate) fn new(size: usize) -> Rings {
            Rings(Rc::new(RefCell::new(Inner { size, ..Inner::default() })))
        }

        pub(crate) fn with<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> T {
            f(&mut self.0.borrow_mut())
        }

        /// Receives a frame as the kernel does. Returns false without chunks.
        pub(crate) fn arrive(&self, lens: &[u32]) -> bool {
            self.with(|rings| {
                if rings.fill.len() < lens.len() || rings.rx.len() + lens.len() > rings.size {
                    return false;
                }
                for (n, &len) in lens.iter().enumerate() {
                    let chunk = rings.fill.pop_front().expect("counted above");
                    rings.rx.push_back(Descriptor { chunk, offset: HEADROOM, len, more: n + 1 < lens.len() });
                }
                true
            })
        }
    }

    impl RxRing for Rings {
        fn available(&mut self) -> u32 {
            self.with(|rings| u32::try_from(rings.rx.len()).expect("a small ring"))
        }

        fn peek(&self, n: u32) -> Descriptor {
            self.with(|rings| rings.rx[n as usize])
        }

        fn release(&mut self, n: u32) {
            self.with(|rings| drop(rings.rx.drain(..n as usize)));
        }
    }

    impl FillRing for Rings {
        fn push(&mut self, chunk: u32) {
            self.with(|rings| rings.filling.push(chunk));
        }

        fn submit(&mut self) {
            self.with(|rings| {
                rings.fill.extend(rings.filling.drain(..));
                assert!(rings.fill.len() <= rings.size, "the fill ring has no room");
            });
        }
    }

    impl TxRing for Rings {
        fn push(&mut self, descriptor: Descriptor) {
            self.with(|rings| rings.sending.push(descriptor));
        }

        fn submit(&mut self) {
            self.with(|rings| {
                rings.tx.extend(rings.sending.drain(..));
                assert!(rings.tx.len() <= rings.size, "the TX ring has no room");
            });
        }

        fn unsent(&self) -> u32 {
            self.with(|rings| u32::try_from(rings.tx.len()).expect("a small ring"))
        }

        fn needs_kick(&self) -> bool {
            true
        }

        /// `Done` sends all, `Dropped` completes one unsent, the others do nothing.
        fn kick(&mut self) -> Kick {
            self.with(|rings| {
                rings.kicks += 1;
                let answer = rings.answers.pop_front().unwrap_or(Kick::Done);
                let taken = match answer {
                    Kick::Done => rings.tx.len(),
                    Kick::Dropped => 1,
                    _ => 0,
                };
                for descriptor in rings.tx.drain(..taken) {
                    rings.completion.push_back(descriptor.chunk);
                    if answer == Kick::Done {
                        rings.wire.push(descriptor);
                    }
                }
                answer
            })
        }
    }

    impl CompletionRing for Rings {
        fn completed(&mut self, each: impl FnMut(u32)) -> u32 {
            let taken = self.with(|rings| std::mem::take(&mut rings.completion));
            let n = u32::try_from(taken.len()).expect("a small ring");
            taken.into_iter().for_each(each);
            n
        }
    }
}
