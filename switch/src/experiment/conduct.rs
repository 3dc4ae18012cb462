//! What every experiment says of every policy: whether it kept the promise, and whether the machine did.

use serde::Serialize;

use crate::fabric::{Account, LOSSLESS, Pfc, Totals};

/// How hosts, switches and machine behaved, all runs of a policy added up. Names are those of `xoff demo`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Conduct {
    /// Frames of the lossless class.
    pub lossless: Totals,
    /// Frames of any class that still waited in a switch at the end; they are among the lost.
    pub held: u64,
    /// Pause frames of the lossless class.
    pub pfc: Pfc,
    /// Every XDP and veth drop counter of every port and host.
    pub xdp_drops: u64,
    /// Whether every frame is delivered, queued, or dropped for a named reason.
    pub ledger_balanced: bool,
    /// Least headroom that was left, bytes.
    pub least_headroom_bytes: u64,
    /// Longest time that the machine kept a switch from running, ms.
    pub longest_stall_ms: f64,
}

impl Conduct {
    /// Of all runs of a policy.
    pub fn of<'a>(accounts: impl IntoIterator<Item = &'a Account>) -> Conduct {
        let all = accounts.into_iter().map(Conduct::from);
        all.reduce(|sum, next| Conduct {
            lossless: sum.lossless + next.lossless,
            held: sum.held + next.held,
            pfc: sum.pfc + next.pfc,
            xdp_drops: sum.xdp_drops + next.xdp_drops,
            ledger_balanced: sum.ledger_balanced && next.ledger_balanced,
            least_headroom_bytes: sum.least_headroom_bytes.min(next.least_headroom_bytes),
            longest_stall_ms: sum.longest_stall_ms.max(next.longest_stall_ms),
        })
        .unwrap_or_default()
    }

    /// Nothing lost, duplicated or reordered but what still waits, and the books balance.
    #[must_use]
    pub const fn is_kept(&self) -> bool {
        let Totals { received, lost, duplicated, reordered, .. } = self.lossless;
        received > 0 && lost <= self.held && duplicated == 0 && reordered == 0 && self.ledger_balanced
    }
}

impl From<&Account> for Conduct {
    fn from(account: &Account) -> Conduct {
        Conduct {
            lossless: Totals::of(account.received(LOSSLESS)),
            held: account.held,
            pfc: Pfc::from(account),
            xdp_drops: account.kernel_drops(),
            ledger_balanced: account.is_balanced(),
            least_headroom_bytes: account.least_headroom(),
            longest_stall_ms: account.longest_stall_nanos() as f64 / 1e6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_still_waits_is_not_lost() {
        let lossless = Totals { sent: 10, received: 8, lost: 2, ..Totals::default() };
        let conduct = Conduct { lossless, held: 2, ledger_balanced: true, ..Conduct::default() };
        assert!(conduct.is_kept());
        assert!(!Conduct { held: 1, ..conduct }.is_kept());
        assert!(!Conduct { ledger_balanced: false, ..conduct }.is_kept());
    }
}
