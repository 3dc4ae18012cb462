//! Traits of the four rings that a socket shares with the kernel.
//!
//! The process consumes from the RX and completion rings, and produces into the fill and TX rings, which have an
//! entry for each chunk that is out.

/// Entry of a ring: a chunk, and the position of a frame's bytes in the chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    pub chunk: u32,
    pub offset: u32,
    /// Bytes of the frame in the chunk. Zero if the frame does not begin directly behind the headroom.
    pub len: u32,
    pub more: bool,
}

pub trait RxRing {
    fn available(&mut self) -> u32;

    fn peek(&self, n: u32) -> Descriptor;

    fn release(&mut self, n: u32);
}

pub trait FillRing {
    fn push(&mut self, chunk: u32);

    fn submit(&mut self);
}

pub trait TxRing {
    fn push(&mut self, descriptor: Descriptor);

    fn submit(&mut self);

    /// Returns the number of submitted descriptors that the kernel has not taken.
    fn unsent(&self) -> u32;

    /// Returns whether the kernel sends only when it gets a kick.
    fn needs_kick(&self) -> bool;

    fn kick(&mut self) -> Kick;
}

pub trait CompletionRing {
    /// Removes all entries and calls `each` with each chunk. Returns their number.
    fn completed(&mut self, each: impl FnMut(u32)) -> u32;
}

/// Result of a kick, the system call that makes the kernel send. Without zero copy, the kernel sends until one of these
/// results occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kick {
    /// The TX ring is empty, or the driver sends the rest by itself.
    Done,
    /// EAGAIN or ENOBUFS: the driver is full, so unsent frames stay in the ring.
    Busy,
    /// EBUSY: the kernel dropped a frame, and completes it as if it were sent.
    Dropped,
    /// ENETDOWN: the interface is down; all frames stay in the ring.
    Down,
    /// ENXIO: the interface is gone, and the kernel no longer uses the socket's rings.
    Gone,
    Failed(i32),
}

#[cfg(test)]
pub(crate) mod memory {
    //! Rings in ordinary memory, for tests in which the test plays the kernel.

    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::rc::Rc;

    use super::*;
    use crate::layout::HEADROOM;

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
                assert!(rings.fill.len() <= rings.size, "the fill ring must not overflow");
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
                assert!(rings.tx.len() <= rings.size, "the TX ring must not overflow");
            });
        }

        fn unsent(&self) -> u32 {
            self.with(|rings| u32::try_from(rings.tx.len()).expect("a small ring"))
        }

        fn needs_kick(&self) -> bool {
            true
        }

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
