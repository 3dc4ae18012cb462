//! What the loops over rings need to know of a ring.
//!
//! The kernel's four rings per socket, seen from this side: two that we consume, two that we produce
//! into. What is produced is taken whole or not at all; the caller knows the room, because it counts
//! what is outside.

/// A chunk on its way in or out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Descriptor {
    /// The chunk.
    pub(super) slot: u32,
    /// Bytes of the frame in it; zero where the kernel put them anywhere but behind the headroom.
    pub(super) len: u32,
    /// Whether the frame goes on in the next descriptor.
    pub(super) more: bool,
}

/// Chunks that the kernel has filled.
pub(super) trait RxRing {
    /// Takes up to `out.len()` descriptors, and says how many.
    fn receive(&mut self, out: &mut [Descriptor]) -> usize;
}

/// Chunks that the kernel may fill.
pub(super) trait FillRing {
    /// Gives all of `slots` to the kernel; false, and none given, where the ring has no room.
    fn fill(&mut self, slots: &[u32]) -> bool;
}

/// Chunks that the kernel is to send.
pub(super) trait TxRing {
    /// Gives all of `descriptors` to the kernel; false, and none given, where the ring has no room.
    fn send(&mut self, descriptors: &[Descriptor]) -> bool;

    /// Descriptors given and not yet looked at by the kernel.
    fn unsent(&mut self) -> u32;

    /// Whether the kernel sends only when it is kicked.
    fn needs_kick(&self) -> bool;

    /// Makes the kernel send.
    fn kick(&mut self) -> Kick;
}

/// Chunks that the kernel has sent.
pub(super) trait CompletionRing {
    /// Takes up to `out.len()` chunks, and says how many.
    fn completed(&mut self, out: &mut [u32]) -> usize;
}

/// What came of a kick. Over a driver without zero copy, one kick sends until one of these:
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kick {
    /// The ring is empty, or the driver goes on by itself.
    Done,
    /// EAGAIN, ENOBUFS: the driver has no room now; the rest stays in the ring.
    Busy,
    /// EBUSY: the kernel dropped a frame, and completes it as if it were sent.
    Dropped,
    /// ENETDOWN, ENXIO: the interface is down or gone; everything stays in the ring.
    Down,
    /// Any other errno, which the kernel's documentation does not know.
    Failed(i32),
}

#[cfg(test)]
pub(super) mod memory {
    //! Rings in plain memory, with the kernel's part played by the test.

    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::rc::Rc;

    use super::*;

    /// A socket's rings; clones are the same rings, one for each side.
    #[derive(Clone, Default)]
    pub(in crate::xdp) struct Rings(Rc<RefCell<Inner>>);

    #[derive(Default)]
    pub(in crate::xdp) struct Inner {
        pub(in crate::xdp) size: usize,
        /// Entries that have left the fill and TX rings, which the kernel has not shown yet.
        pub(in crate::xdp) unshown: usize,
        pub(in crate::xdp) rx: VecDeque<Descriptor>,
        pub(in crate::xdp) fill: VecDeque<u32>,
        pub(in crate::xdp) tx: VecDeque<Descriptor>,
        pub(in crate::xdp) completion: VecDeque<u32>,
        /// Answers to the next kicks; `Done` once they are used up.
        pub(in crate::xdp) answers: VecDeque<Kick>,
        pub(in crate::xdp) kicks: u32,
        /// Descriptors that left by kicks, in order.
        pub(in crate::xdp) wire: Vec<Descriptor>,
    }

    impl Rings {
        pub(in crate::xdp) fn new(size: usize) -> Rings {
            Rings(Rc::new(RefCell::new(Inner { size, ..Inner::default() })))
        }

        pub(in crate::xdp) fn with<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> T {
            f(&mut self.0.borrow_mut())
        }

        /// The kernel receives a frame of these fragment lengths; false where it lacks chunks.
        pub(in crate::xdp) fn arrive(&self, lens: &[u32]) -> bool {
            self.with(|rings| {
                if rings.fill.len() < lens.len() || rings.rx.len() + lens.len() > rings.size {
                    return false;
                }
                for (n, &len) in lens.iter().enumerate() {
                    let slot = rings.fill.pop_front().expect("counted above");
                    rings.rx.push_back(Descriptor { slot, len, more: n + 1 < lens.len() });
                }
                true
            })
        }
    }

    impl RxRing for Rings {
        fn receive(&mut self, out: &mut [Descriptor]) -> usize {
            self.with(|rings| {
                let n = out.len().min(rings.rx.len());
                out.iter_mut().zip(rings.rx.drain(..n)).for_each(|(out, descriptor)| *out = descriptor);
                n
            })
        }
    }

    impl FillRing for Rings {
        fn fill(&mut self, slots: &[u32]) -> bool {
            self.with(|rings| {
                let fits = rings.fill.len() + rings.unshown + slots.len() <= rings.size;
                if fits {
                    rings.fill.extend(slots);
                }
                fits
            })
        }
    }

    impl TxRing for Rings {
        fn send(&mut self, descriptors: &[Descriptor]) -> bool {
            self.with(|rings| {
                let fits = rings.tx.len() + rings.unshown + descriptors.len() <= rings.size;
                if fits {
                    rings.tx.extend(descriptors);
                }
                fits
            })
        }

        fn unsent(&mut self) -> u32 {
            self.with(|rings| u32::try_from(rings.tx.len()).expect("a small ring"))
        }

        fn needs_kick(&self) -> bool {
            true
        }

        /// `Done` sends all, `Dropped` completes one without sending it, the others do nothing.
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
                    rings.completion.push_back(descriptor.slot);
                    if answer == Kick::Done {
                        rings.wire.push(descriptor);
                    }
                }
                answer
            })
        }
    }

    impl CompletionRing for Rings {
        fn completed(&mut self, out: &mut [u32]) -> usize {
            self.with(|rings| {
                let n = out.len().min(rings.completion.len());
                out.iter_mut().zip(rings.completion.drain(..n)).for_each(|(out, slot)| *out = slot);
                n
            })
        }
    }
}
