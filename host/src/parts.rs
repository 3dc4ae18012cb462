use xoff_wire::units::{BitRate, MacAddr, Nanos};

use crate::gate::Gate;
use crate::notices::Notices;
use crate::report::{HostReport, PauseReport, ReceivedStream, SentStream, UnsortedReport};
use crate::sender::Sender;
use crate::sink::Sink;
use crate::stream::Stream;

#[derive(Debug)]
pub struct HostParts<'host> {
    pub address: MacAddr,
    pub id: u16,
    pub line: BitRate,
    pub streams: &'host [Stream],
    pub sender: &'host Sender,
    pub sink: &'host Sink,
    pub gate: &'host Gate,
    pub notices: &'host Notices,
}

impl HostParts<'_> {
    /// Returns the host's report. For a real host, the caller adds the interface and its losses.
    #[must_use]
    pub fn report(&self, begin: Nanos, now: Nanos) -> HostReport {
        let sent = self.sender.sent().zip(self.streams).zip(self.sender.limiters()).enumerate();
        HostReport {
            address: self.address.to_string(),
            sender: self.id,
            line_mbps: self.line.bits_per_second() as f64 / 1e6,
            elapsed_ns: now.since(begin).0,
            sent: sent
                .map(|(index, ((sent, stream), qcn))| SentStream {
                    qcn,
                    ..SentStream::new(index, stream, sent)
                })
                .collect(),
            received: self.sink.streams().iter().map(ReceivedStream::from).collect(),
            pauses: PauseReport::from(&self.gate.counts(now)),
            cnms: self.notices.report(),
            unsorted: UnsortedReport::new(self.sink.unsorted(), 0),
            ..HostReport::default()
        }
    }
}
