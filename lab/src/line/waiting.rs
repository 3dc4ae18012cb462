use std::collections::VecDeque;

use xoff_wire::units::{BitRate, Bytes, Nanos};

use super::Impairment;

/// Maximum burst of late frames, as sending time at the line's rate. Further late frames leave at that rate, because the receiver has no
/// memory for a longer burst.
const BURST: Nanos = Nanos::from_millis(1);

#[derive(Debug)]
pub(super) struct Waiting<T> {
    frames: VecDeque<(Nanos, Bytes, T)>,
    /// Frames without delay, which leave first.
    express: VecDeque<(Nanos, Bytes, T)>,
    last_due: Nanos,
    bytes: Bytes,
    capacity: Bytes,
    rate: BitRate,
    free_at: Nanos,
}

impl<T> Waiting<T> {
    pub(super) fn new(capacity: Bytes, rate: BitRate) -> Waiting<T> {
        let (frames, express) = (VecDeque::new(), VecDeque::new());
        let (last_due, free_at) = (Nanos::ZERO, Nanos::ZERO);
        Waiting { frames, express, last_due, bytes: Bytes::ZERO, capacity, rate, free_at }
    }

    pub(super) fn len(&self) -> usize {
        self.frames.len() + self.express.len()
    }

    pub(super) fn push(&mut self, now: Nanos, delay: Nanos, bytes: Bytes, frame: T) -> Result<(), T> {
        if self.bytes + bytes > self.capacity {
            return Err(frame);
        }
        self.last_due = self.last_due.max(now.after(delay));
        self.bytes += bytes;
        self.frames.push_back((self.last_due, bytes, frame));
        Ok(())
    }

    pub(super) fn push_express(&mut self, now: Nanos, bytes: Bytes, frame: T) -> Result<(), T> {
        if self.bytes + bytes > self.capacity {
            return Err(frame);
        }
        self.bytes += bytes;
        self.express.push_back((now, bytes, frame));
        Ok(())
    }

    pub(super) fn next_due(&self) -> Nanos {
        let due = |queue: &VecDeque<(Nanos, Bytes, T)>| queue.front().map_or(Nanos::NEVER, |(due, ..)| *due);
        due(&self.express).min(due(&self.frames).max(self.free_at))
    }

    pub(super) fn pop(&mut self, now: Nanos) -> Option<(Nanos, T)> {
        let is_free = self.free_at <= now || !self.express.is_empty();
        let queue = if self.express.is_empty() { &mut self.frames } else { &mut self.express };
        let is_due = |due: &Nanos| *due <= now && is_free;
        let (due, bytes, frame) =
            queue.front().is_some_and(|(due, ..)| is_due(due)).then(|| queue.pop_front())??;
        self.free_at = self.free_at.max(Nanos(now.0.saturating_sub(BURST.0))).after(self.rate.time_of(bytes));
        self.bytes = self.bytes.saturating_sub(bytes);
        Some((due, frame))
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.bytes = Bytes::ZERO;
        self.express.drain(..).chain(self.frames.drain(..)).map(|(_, _, frame)| frame)
    }
}

#[derive(Debug)]
pub(super) struct Draws(fastrand::Rng);

impl Draws {
    pub(super) fn new(seed: u64) -> Draws {
        Draws(fastrand::Rng::with_seed(seed))
    }

    pub(super) fn next(&mut self, impairment: &Impairment) -> Option<Nanos> {
        (!impairment.loses(&mut self.0)).then(|| impairment.delay(&mut self.0))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const BYTES: Bytes = Bytes(100);
    const FAST: BitRate = BitRate::from_gbps(1_000);

    #[test]
    fn late_frames_leave_delay_line_as_burst_then_at_line_rate() {
        let mut line = Waiting::new(Bytes(1_000_000), BitRate::from_gbps(1));
        (0..20).for_each(|number| line.push(Nanos(0), Nanos(5), Bytes(12_500), number).unwrap());
        let late = Nanos::from_millis(30);
        // A burst is 1 ms of the line's rate, here ten frames. The eleventh frame begins when the burst ends.
        let burst: Vec<_> = std::iter::from_fn(|| line.pop(late)).collect();
        assert_eq!(burst.len(), 11);
        let next = late.after(Nanos::from_micros(100));
        assert_eq!((line.next_due(), line.pop(Nanos(next.0 - 1))), (next, None));
        assert_eq!(line.pop(next), Some((Nanos(5), 11)));
        assert_eq!(line.pop(next), None);
    }

    #[test]
    fn frames_leave_delay_line_in_order_exactly_when_due() {
        let mut line = Waiting::new(Bytes(1_000), FAST);
        let mut draws = Draws::new(7);
        let impairment = Impairment { delay_ns: 500, jitter_ns: 400, ..Impairment::default() };
        let mut dues = Vec::new();
        for number in 0..10 {
            let delay = draws.next(&impairment).unwrap();
            assert!((500..=900).contains(&delay.0));
            line.push(Nanos(number * 10), delay, BYTES, number).unwrap();
            dues.push(number * 10 + delay.0);
        }
        for number in 0..10 {
            let due = dues[..=number].iter().max().copied().unwrap();
            assert_eq!(line.next_due(), Nanos(due));
            assert_eq!(line.pop(Nanos(due - 1)), None);
            assert_eq!(line.pop(Nanos(due)), Some((Nanos(due), number as u64)));
        }
        assert_eq!(line.next_due(), Nanos::NEVER);
    }

    #[test]
    fn full_delay_line_refuses_the_next_frame() {
        let mut line = Waiting::new(Bytes(250), FAST);
        line.push(Nanos(0), Nanos(5), BYTES, 'a').unwrap();
        line.push_express(Nanos(1), BYTES, 'b').unwrap();
        assert_eq!(line.push(Nanos(1), Nanos(0), BYTES, 'c'), Err('c'));
        assert_eq!(line.push_express(Nanos(1), BYTES, 'c'), Err('c'));
        assert_eq!(
            line.pop(Nanos(1)),
            Some((Nanos(1), 'b')),
            "the frame without delay must overtake the delayed one"
        );
        line.push(Nanos(2), Nanos(0), BYTES, 'c').unwrap();
        assert_eq!(
            (line.pop(Nanos(4)), line.len()),
            (None, 2),
            "a frame with a shorter delay must not overtake an earlier frame"
        );
        assert_eq!(line.drain().collect::<String>(), "ac");
        line.push(Nanos(9), Nanos(0), Bytes(250), 'd').unwrap();
    }
}
