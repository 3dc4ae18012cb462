use std::iter::Sum;

use derive_more::Add;
use serde::Serialize;
use xoff_wire::units::Class;

use crate::statistics::{Spread, p50};
use crate::{Account, Counted, LOSSLESS, Pfc, Totals};

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Conduct {
    pub lossless: Totals,
    pub held: u64,
    #[serde(skip)]
    pub unqueued_losses: u64,
    pub pfc: Pfc,
    pub halts: Halts,
    pub xdp_drops: u64,
    pub ledger_balanced: bool,
    pub unproved: Vec<String>,
    pub least_headroom_bytes: Option<u64>,
    pub longest_stall_ms: f64,
    pub longest_host_gap_ms: f64,
    /// Median wakeup delay of the hosts' programs in ms; zero if no host slept.
    pub usual_host_gap_ms: f64,
    #[serde(skip)]
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Add, Serialize)]
pub struct Halts {
    pub count: u64,
    pub ms: f64,
}

impl From<&Account> for Halts {
    fn from(account: &Account) -> Halts {
        let queues = account.switches.iter().flat_map(Counted::classes);
        let halts = queues.map(|(_, _, queue)| Halts {
            count: queue.halts.get(),
            ms: account.halted_nanos(queue) as f64 / 1e6,
        });
        halts.fold(Halts::default(), |sum, next| sum + next)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Every frame arrived once and in order, or is still queued.
    #[default]
    Kept,
    /// No loss is known, but a counter was unreadable.
    Unproved,
    /// Frames were lost, or none arrived; allowed for policies that do not promise losslessness.
    Lossy,
    /// Frames were duplicated, reordered or unaccounted for, which no policy allows.
    Broken,
}

impl Conduct {
    pub fn of<'a>(accounts: impl IntoIterator<Item = &'a Account>) -> Conduct {
        accounts.into_iter().map(|account| Conduct::of_classes(account, &[LOSSLESS])).sum()
    }

    pub fn of_classes(account: &Account, classes: &[Class]) -> Conduct {
        let totals = classes.iter().map(|&class| Totals::of(account.received(class)));
        let held = classes.iter().map(|class| account.held[class.index()]).sum();
        Conduct::new(account, totals.sum(), held)
    }

    pub fn new(account: &Account, lossless: Totals, held: u64) -> Conduct {
        let ledger_balanced = account.is_balanced();
        let unproved = account.unproved();
        let usual_gaps = Spread::of(account.usual_host_gaps_nanos().map(|gap| gap as f64 / 1e6));
        let proof = if unproved.is_empty() { Verdict::Kept } else { Verdict::Unproved };
        Conduct {
            lossless,
            held,
            unqueued_losses: lossless.lost.saturating_sub(held),
            pfc: Pfc::from(account),
            halts: Halts::from(account),
            xdp_drops: account.kernel_drops(),
            ledger_balanced,
            unproved,
            least_headroom_bytes: account.least_headroom(),
            longest_stall_ms: account.longest_stall_nanos() as f64 / 1e6,
            longest_host_gap_ms: account.longest_host_gap_nanos() as f64 / 1e6,
            usual_host_gap_ms: p50(usual_gaps).unwrap_or(0.0),
            verdict: Verdict::of(lossless, held, ledger_balanced).max(proof),
        }
    }

    pub(super) const fn ledger(&self) -> &'static str {
        if self.ledger_balanced { "balanced" } else { "NOT balanced" }
    }

    pub fn lost_percent(&self) -> f64 {
        100.0 * self.unqueued_losses as f64 / self.lossless.sent.max(1) as f64
    }
}

impl Sum for Conduct {
    fn sum<I: Iterator<Item = Conduct>>(runs: I) -> Conduct {
        let both = |sum: Conduct, next: Conduct| Conduct {
            lossless: sum.lossless + next.lossless,
            held: sum.held + next.held,
            unqueued_losses: sum.unqueued_losses + next.unqueued_losses,
            pfc: sum.pfc + next.pfc,
            halts: sum.halts + next.halts,
            xdp_drops: sum.xdp_drops + next.xdp_drops,
            ledger_balanced: sum.ledger_balanced && next.ledger_balanced,
            unproved: [sum.unproved, next.unproved].concat(),
            least_headroom_bytes: sum.least_headroom_bytes.into_iter().chain(next.least_headroom_bytes).min(),
            longest_stall_ms: sum.longest_stall_ms.max(next.longest_stall_ms),
            longest_host_gap_ms: sum.longest_host_gap_ms.max(next.longest_host_gap_ms),
            usual_host_gap_ms: 0.0, // set below, from all runs together
            verdict: sum.verdict.max(next.verdict),
        };
        let runs: Vec<Conduct> = runs.collect();
        let usual_host_gap_ms =
            p50(Spread::of(runs.iter().map(|run| run.usual_host_gap_ms).filter(|gap| *gap > 0.0)));
        let sum = runs.into_iter().reduce(both).unwrap_or_default();
        Conduct { usual_host_gap_ms: usual_host_gap_ms.unwrap_or_default(), ..sum }
    }
}

impl Verdict {
    const fn of(lossless: Totals, held: u64, ledger_balanced: bool) -> Verdict {
        let Totals { received, lost, duplicated, reordered, .. } = lossless;
        if duplicated > 0 || reordered > 0 || !ledger_balanced {
            Verdict::Broken
        } else if received == 0 || lost > held {
            Verdict::Lossy
        } else {
            Verdict::Kept
        }
    }
}

// Tests for SPECIFICATION.md: experiments
#[cfg(test)]
mod tests {
    use xoff_host::HostReport;
    use xoff_host::report::ReceivedStream;
    use xoff_wire::units::{CLASSES, PortId};

    use super::*;

    fn run(lost: u64, held: u64) -> Conduct {
        let lossless = Totals { sent: 8 + lost, received: 8, lost, ..Totals::default() };
        let (verdict, unqueued_losses) = (Verdict::of(lossless, held, true), lost.saturating_sub(held));
        Conduct { lossless, held, unqueued_losses, verdict, ..Conduct::default() }
    }

    #[test]
    fn frames_queued_at_end_of_run_do_not_count_as_lost() {
        assert_eq!([run(2, 2), run(2, 1)].map(|run| run.verdict), [Verdict::Kept, Verdict::Lossy]);
        assert_eq!(
            Verdict::of(Totals::default(), 0, true),
            Verdict::Lossy,
            "a run in which no frame arrived must not count as lossless"
        );
    }

    #[test] // proves: experiment-parity
    fn verdict_ignores_losses_explained_by_queued_frames() {
        let mut stream = ReceivedStream { class: LOSSLESS.get(), frames: 8, ..ReceivedStream::default() };
        stream.settle(10);
        let mut host = HostReport {
            received: vec![stream],
            longest_gap_ns: 3_000_000,
            usual_gap_ns: 30_000,
            ..HostReport::default()
        };
        host.drops.total = 7;
        let of = |waiting| {
            let mut held = [0; CLASSES];
            held[LOSSLESS.index()] = waiting;
            let others =
                [20_000, 50_000, 0].map(|usual_gap_ns| HostReport { usual_gap_ns, ..HostReport::default() });
            Conduct::of([&Account::of_hosts([vec![host.clone()], others.to_vec()].concat(), held)])
        };
        let [queued, lossy] = [of(2), of(1)];
        assert_eq!((queued.lossless.lost, queued.unqueued_losses, queued.verdict), (2, 0, Verdict::Kept));
        assert_eq!((lossy.lossless.lost, lossy.unqueued_losses, lossy.verdict), (2, 1, Verdict::Lossy));
        assert!(
            (lossy.lost_percent() - 10.0).abs() < 1e-9,
            "the loss must be given in percent of all sent frames"
        );
        assert_eq!(
            (lossy.xdp_drops, lossy.longest_host_gap_ms),
            (7, 3.0),
            "drops must be the sum, and the longest gap the maximum, over all hosts"
        );
        assert_eq!(lossy.usual_host_gap_ms, 0.03, "wakeup delay must be the median over hosts that slept");
        let runs =
            [0.0, 0.03, 0.2, 0.05].map(|usual_host_gap_ms| Conduct { usual_host_gap_ms, ..lossy.clone() });
        assert_eq!(
            runs.into_iter().sum::<Conduct>().usual_host_gap_ms,
            0.05,
            "the wakeup delay must be the median over those runs in which hosts slept"
        );
    }

    #[test]
    fn pipeline_halt_time_is_sum_over_all_switches() {
        let switch = Counted::nothing("switch");
        let mut account = Account::of_hosts(Vec::new(), [0; CLASSES]);
        account.switches = vec![switch.clone(), switch.clone()];
        for (port, class, count, ms) in [(0, 3, 2, 3), (0, 4, 10, 20), (1, 3, 100, 300)] {
            let counters = switch.counters.class(PortId(port), Class::ALL[class]);
            counters.halts.add(count);
            counters.halted_nanos.add(ms * 1_000_000);
        }
        let after = Conduct::of([&account]).halts;
        assert_eq!((after.count, after.ms.round()), (2 * 112, 2.0 * 323.0));
        let two_runs: Conduct = [Conduct::of([&account]), Conduct::of([&account])].into_iter().sum();
        assert_eq!(two_runs.halts, after + after);
    }

    #[test]
    fn queued_frames_do_not_excuse_losses_of_another_run() {
        let sum: Conduct = [run(0, 1), run(1, 0)].into_iter().sum();
        assert_eq!((sum.lossless.lost, sum.held, sum.verdict), (1, 1, Verdict::Lossy));
        assert_eq!(sum.unqueued_losses, 1);
    }

    #[test]
    fn smallest_headroom_ignores_runs_without_headroom() {
        let with = |least_headroom_bytes| Conduct { least_headroom_bytes, ..Conduct::default() };
        let least = |runs: [Option<u64>; 2]| runs.map(with).into_iter().sum::<Conduct>().least_headroom_bytes;
        assert_eq!(
            [least([Some(7), Some(5)]), least([Some(7), None]), least([None, None])],
            [Some(5), Some(7), None]
        );
    }

    #[test]
    fn duplicates_and_reordering_break_every_guarantee() {
        let clean = run(0, 0).lossless;
        assert_eq!(Verdict::of(clean, 0, true), Verdict::Kept);
        for broken in [
            Verdict::of(Totals { duplicated: 1, ..clean }, 0, true),
            Verdict::of(Totals { reordered: 1, ..clean }, 0, true),
            Verdict::of(clean, 0, false),
        ] {
            assert_eq!(broken, Verdict::Broken);
        }
    }
}
