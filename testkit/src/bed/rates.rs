//! Model of the rate limits of classes (GFC) that reads only the bytes of frames, independently of the switch.

use xoff_wire::units::{BitRate, Bytes, CLASSES, Class, ClassSet, Nanos, Quanta, TAGS};

/// Credit for one byte, in units of bit/s times ns, so that nothing is rounded.
const BYTE: i128 = 8 * 1_000_000_000;

#[derive(Clone, Debug)]
pub struct Rates {
    line: BitRate,
    burst: Bytes,
    limits: [Option<Limit>; CLASSES],
}

#[derive(Clone, Copy, Debug)]
struct Limit {
    rate: BitRate,
    until: Nanos,
    credit: i128,
    updated: Nanos,
}

impl Rates {
    pub fn new(line: BitRate, mtu_frame: u32) -> Rates {
        Rates { line, burst: Bytes::on_line(mtu_frame + TAGS), limits: [None; CLASSES] }
    }

    /// Sets the rates that a frame gives to the classes `obeyed`. Returns false if the frame contains no rates.
    pub fn received(&mut self, now: Nanos, bytes: &[u8], obeyed: ClassSet) -> bool {
        if bytes.get(12..16) != Some(&[0x88, 0x08, 1, 1]) || bytes.get(34..38) != Some(b"GFC1") {
            return false;
        }
        let time = self.line.time_of_quanta(Quanta(u16::from_be_bytes([bytes[48], bytes[49]])));
        for class in ClassSet(bytes[38] & obeyed.0).iter() {
            let step = bytes[40 + class.index()];
            let before = self.limit(now, class);
            self.limits[class.index()] = (step > 0 && time > Nanos::ZERO).then(|| Limit {
                rate: BitRate::new(self.line.bits_per_second() >> step)
                    .expect("the line must carry at least 65,536 b/s"),
                until: now.after(time),
                credit: before.map_or(0, |limit| limit.credit),
                updated: now,
            });
        }
        true
    }

    pub fn let_pass(&self, now: Nanos, class: Class) -> bool {
        self.limit(now, class).is_none_or(|limit| limit.credit >= 0)
    }

    pub fn next_pass(&self, class: Class) -> Nanos {
        self.limits[class.index()].map_or(Nanos::ZERO, |limit| {
            let rate = i128::from(limit.rate.bits_per_second());
            let wait = (-limit.credit).max(0).unsigned_abs().div_ceil(rate.unsigned_abs());
            limit
                .updated
                .after(Nanos(u64::try_from(wait).expect("the time of a frame in ns must fit in 64 bits")))
                .min(limit.until)
        })
    }

    pub fn sent(&mut self, now: Nanos, class: Class, len: usize) {
        let size = Bytes::on_line(u32::try_from(len).expect("the frame length must fit in 32 bits"));
        self.limits[class.index()] = self.limit(now, class).map(|mut limit| {
            limit.credit -= i128::from(size.0) * BYTE;
            limit
        });
    }

    fn limit(&self, now: Nanos, class: Class) -> Option<Limit> {
        let limit = self.limits[class.index()].filter(|limit| now < limit.until)?;
        let elapsed = now.since(limit.updated).0;
        let earned = limit.credit + i128::from(elapsed) * i128::from(limit.rate.bits_per_second());
        Some(Limit { credit: earned.min(i128::from(self.burst.0) * BYTE), updated: now, ..limit })
    }
}
