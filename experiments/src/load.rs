use xoff_host::{STREAMS_MAX, Stream};
use xoff_wire::units::Nanos;

use crate::account::Account;
use crate::plan::{HostId, LOSSLESS};

const LOSSLESS_DSCP: u8 = 24;

pub fn lossless(to: HostId) -> Stream {
    Stream { class: LOSSLESS, dscp: LOSSLESS_DSCP, dst: to.address(), ..Stream::default() }
}

#[derive(Debug, Default)]
pub struct Load {
    streams: Vec<(HostId, Stream)>,
}

impl Load {
    pub fn send(&mut self, host: HostId, stream: Stream) -> &mut Load {
        let before = self.streams.iter().filter(|(of, _)| *of == host).count();
        assert!(before < STREAMS_MAX, "a host must have at most {STREAMS_MAX} streams");
        self.streams.push((host, stream));
        self
    }

    /// Returns when a stream's first frame was due. The host's start time is estimated from its least delayed stream.
    pub fn due(&self, account: &Account, host: HostId, number: u8) -> Option<Nanos> {
        let streams = self.of(host);
        let sent = account.host(host).sent.iter().filter(|sent| sent.frames > 0);
        let began = sent.map(|sent| sent.first_ns - streams[usize::from(sent.stream)].start.0).min()?;
        streams.get(usize::from(number)).map(|stream| Nanos(began).after(stream.start))
    }

    /// Returns the time from a stream's due time to its last frame's arrival; `None` if frames are missing.
    pub fn completion(&self, account: &Account, from: HostId, to: HostId, number: u8) -> Option<Nanos> {
        let count = self.of(from).get(usize::from(number))?.count?;
        let completed = account.stream(from, to, number)?.completed(count)?;
        Some(completed.since(self.due(account, from, number)?))
    }

    pub(crate) fn of(&self, host: HostId) -> Vec<Stream> {
        self.streams.iter().filter(|(of, _)| *of == host).map(|(_, stream)| stream.clone()).collect()
    }
}
