//! Hosts that use the kernel's TCP.
//!
//! The kernel ignores pauses, so a switch with two ports acts as each sender's NIC: it obeys pauses, queues frames, and
//! never pauses its host.

use std::collections::BTreeSet;
use std::time::Duration;

use xoff_wire::units::{Bytes, Nanos};

use super::Conduct;
use super::series::Series;
use crate::namespaces::{Counts, Flows, Network, Options, Volume};
use crate::{
    Account, Fabric, FabricError, HostId, LOSSLESS, Line, Live, Load, Plan, PortOf, Settings, SwitchId,
    Totals,
};

const SAMPLE_EVERY: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(5);
/// Size of a TCP receive buffer at 100 Mb/s. TCP uses at least half of it as window.
const RECEIVE_BUFFER: Bytes = Bytes(256_000);
/// Queue limit of a NIC at 100 Mb/s: a whole TCP window, because a NIC never pauses its host.
const ROOM_IN_NIC: Bytes = Bytes(400_000);
/// Minimum queue limit of a NIC: TCP's initial window of ten segments, whose loss would cause a long delay.
const LEAST_ROOM_IN_NIC: Bytes = Bytes(60_000);
/// Burst of a NIC: two frames. A larger one could exceed the line rate after a pause.
const NIC_BURST: Bytes = Bytes(3100);

pub(super) fn one_class(settings: &mut Settings) -> &mut Settings {
    settings.set("defaults.trust", "port").set("defaults.default_class", u64::from(LOSSLESS.get()))
}

pub(super) fn sender(plan: &mut Plan, number: usize, switch: SwitchId) -> (HostId, PortOf) {
    let nic = plan.nic(&format!("nic-{number}"));
    let host = plan.kernel_host(&format!("sender-{number}"), nic);
    let input = plan.trunk(switch, nic).0;
    let room = room_in_nic(plan.line());
    one_class(plan.settings_of(nic))
        .set("class.3.xoff", room)
        .set("class.3.xon", Bytes(room.0 / 2))
        .set("defaults.burst", NIC_BURST);
    (host, input)
}

fn room_in_nic(line: Line) -> Bytes {
    line.size(ROOM_IN_NIC).max(LEAST_ROOM_IN_NIC)
}

pub(super) fn receive_buffer(line: Line) -> Bytes {
    line.size(RECEIVE_BUFFER)
}

pub(super) struct Bulk {
    pub flows: Vec<(HostId, HostId)>,
    pub options: Options,
    pub lasts: Nanos,
}

pub(super) struct TransferResults {
    pub account: Account,
    pub watched: TransferRecord,
    pub totals: Totals,
    pub at_senders: Counts,
    pub at_receivers: Counts,
}

#[derive(Default)]
pub(super) struct TransferRecord {
    pub congestion_control: &'static str,
    pub flows: Vec<Series>,
    pub volumes: Vec<Volume>,
    pub lasted: Nanos,
}

impl Bulk {
    pub(super) fn run(
        &self,
        fabric: &Fabric,
        mut observe: impl FnMut(&Live<'_>, Nanos),
    ) -> Result<TransferResults, FabricError> {
        let [senders, receivers]: [BTreeSet<HostId>; 2] =
            [self.flows.iter().map(|flow| flow.0).collect(), self.flows.iter().map(|flow| flow.1).collect()];
        let kernels = fabric.kernels();
        let hosts: BTreeSet<HostId> = senders.union(&receivers).copied().collect();
        hosts.iter().try_for_each(|&host| kernels.prepare(host, &self.options))?;
        let (watched, account) = fabric.run(&Load::default(), PATIENCE, |live| {
            self.watch(live, kernels.transfer(&self.flows, self.options.ecn)?, &mut observe)
        })?;
        let counts = |hosts: BTreeSet<HostId>| -> Result<Counts, FabricError> {
            Ok(hosts.into_iter().map(|host| kernels.counts(host)).sum::<Result<Counts, _>>()?)
        };
        let (at_senders, at_receivers) = (counts(senders)?, counts(receivers)?);
        let totals = totals(kernels, &hosts, at_receivers.out_of_order)?;
        Ok(TransferResults { account, watched: watched?, totals, at_senders, at_receivers })
    }

    fn watch(
        &self,
        live: &Live<'_>,
        transfer: Flows,
        observe: &mut impl FnMut(&Live<'_>, Nanos),
    ) -> Result<TransferRecord, FabricError> {
        let mut flows = vec![Series::default(); self.flows.len()];
        let begin = live.elapsed();
        loop {
            live.sample();
            let now = live.elapsed().since(begin);
            if now >= self.lasts {
                break;
            }
            for (series, bytes) in flows.iter_mut().zip(transfer.read()) {
                series.record(now, bytes);
            }
            observe(live, now);
            live.wait(SAMPLE_EVERY);
        }
        let congestion_control = transfer.congestion_control();
        let volumes = transfer.finish()?;
        Ok(TransferRecord { congestion_control, flows, volumes, lasted: live.elapsed().since(begin) })
    }
}

fn totals(kernels: &Network, hosts: &BTreeSet<HostId>, reordered: u64) -> Result<Totals, FabricError> {
    let (mut sent, mut received) = (0, 0);
    for &host in hosts {
        let [out, into] = kernels.frames(host)?;
        sent += out;
        received += into;
    }
    Ok(Totals {
        sent,
        received: received.min(sent),
        lost: sent.saturating_sub(received),
        duplicated: received.saturating_sub(sent),
        reordered,
    })
}

impl TransferResults {
    pub(super) fn conduct(&self, reorders: bool) -> Conduct {
        let observed = Totals { reordered: if reorders { 0 } else { self.totals.reordered }, ..self.totals };
        let reordered = if observed.lost == 0 { observed.reordered } else { 0 };
        let judged = Totals { reordered, ..observed };
        let conduct = Conduct::new(&self.account, judged, self.account.held[LOSSLESS.index()]);
        Conduct { lossless: observed, ..conduct }
    }

    pub(super) fn rates(&self, settled: Nanos) -> Option<Vec<f64>> {
        self.watched.flows.iter().map(|flow| flow.rate(settled, Nanos::NEVER)).collect()
    }

    #[cfg(test)]
    pub(super) fn of(account: Account, totals: Totals) -> TransferResults {
        let watched = TransferRecord::default();
        TransferResults {
            account,
            watched,
            totals,
            at_senders: Counts::default(),
            at_receivers: Counts::default(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_wire::units::BitRate;

    use super::*;

    #[test]
    fn host_nic_queue_holds_tcp_window_plus_ten_segments() {
        let ten_segments = Bytes(10 * 1518);
        for line in [5, 10, 15, 20, 100, 1000].map(|mbps| Line::from(BitRate::from_mbps(mbps))) {
            let window = receive_buffer(line).max(ten_segments);
            assert!(room_in_nic(line) > window + ten_segments, "{line:?}");
        }
    }
}
