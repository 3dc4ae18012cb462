//! Checks and repairs the agent's queues: after a change by another program, frames of paused classes may leave.

use xoff_wire::units::{Class, ClassSet, Nanos};

use super::{Agent, AgentError, CHECK_EVERY};
use crate::egress::{Defects, EgressError, Part, Repair};
use crate::guard;
use crate::proof::Paused;
use crate::view::list;

const CHECKS_AT_END: u32 = 8;

impl Agent {
    pub(super) fn paused(&self, now: Nanos) -> Paused {
        self.controller.pauses(now).classes.map(|counts| counts.paused)
    }

    pub(super) fn check_at_end(&mut self) -> Result<(), AgentError> {
        self.read_link_events()?;
        for _ in 0..CHECKS_AT_END {
            if self.check(guard::now())? {
                break;
            }
            self.act(guard::now())?; // stops the classes again that the guard has opened
        }
        Ok(())
    }

    /// Checks and repairs the queues. Returns false, without repairs, if the guard process has started a class; then call this again.
    pub(super) fn check(&mut self, now: Nanos) -> Result<bool, AgentError> {
        let was_announced = self.check_at != Nanos::NEVER;
        (self.check_at, self.check_from) = (Nanos::NEVER, now.after(CHECK_EVERY));
        let doubted = std::mem::take(&mut self.doubted);
        let dump = match self.egress.dump() {
            Ok(dump) => dump,
            Err(error) => {
                self.check_again(was_announced, doubted);
                self.check_guard(now); // an unread message of the guard would keep the agent awake
                return self.log_refusal(&error).map(|()| true);
            }
        };
        if !self.check_guard(now).is_empty() {
            self.check_again(was_announced, doubted);
            return Ok(false);
        }
        let Repair { found, left, deleted, refused } =
            self.egress.repair(&dump, doubted, self.reclaim.is_due(now));
        if refused.is_some() {
            self.expect_device()?; // missing queues of a removed device are no fault
            self.doubted = ClassSet(self.doubted.0 | doubted.0);
        }
        match refused {
            Some(EgressError::Replaced { .. }) => {
                self.next_look = self.next_look.min(self.reclaim.is_foreign(now));
            }
            _ => self.reclaim.is_own(),
        }
        let before = self.view.defects();
        self.view.defects.set(left.to_number());
        if !before.contains(Part::Root) {
            self.view.count_deleted(deleted);
        }
        if found.is_empty() {
            self.proof.whole(self.paused(now));
            return Ok(true);
        }
        let paused = self.paused(guard::now());
        let times = self.proof.broken(found.reach(), was_announced, paused);
        self.log_defects(found, left, before, refused.as_ref());
        self.log_disobedience(times);
        Ok(true)
    }

    fn check_again(&mut self, was_announced: bool, doubted: ClassSet) {
        self.doubted = ClassSet(self.doubted.0 | doubted.0);
        let again = if was_announced { &mut self.check_at } else { &mut self.next_look };
        *again = self.check_from;
    }

    fn log_defects(&self, found: Defects, left: Defects, before: Defects, refused: Option<&EgressError>) {
        if left.is_empty() {
            self.view.repairs.add(1);
            let repairs = self.view.repairs.get();
            if repairs.is_power_of_two() {
                tracing::warn!(
                    repairs,
                    "another program changed the device's queues ({found}); the agent repaired them. Frames in a deleted queue are lost: do not \
                     change handles 786e: and 7870: to 7877:"
                );
            }
        } else if left != before {
            let why = refused
                .map_or_else(|| "another program changed the queues again".to_owned(), ToString::to_string);
            tracing::error!(
                "another program changed the device's queues ({left}), and the agent has not repaired them: {why}. Frames of paused classes may \
                 leave. The agent tries again within 8 s; `tc qdisc del dev {} root` makes it build new queues at once",
                self.view.device.get()
            );
        }
    }

    fn log_disobedience(&self, times: Paused) {
        let mut all = 0;
        for (counter, time) in self.view.disobeyed.iter().zip(times) {
            counter.add(time.0);
            all += counter.get();
        }
        let of_now: u64 = times.iter().map(|time| time.0).sum();
        if of_now > 0 && (all == of_now || all.ilog2() > (all - of_now).ilog2()) {
            let classes = Class::ALL.into_iter().filter(|class| times[class.index()] > Nanos::ZERO).collect();
            let longest = times.iter().copied().max().unwrap_or_default();
            tracing::error!(
                "class {}: pause not enforced for up to {} ms because the queues were changed; the switch may have dropped \
                 frames of the class",
                list(classes),
                longest.0.div_ceil(1_000_000)
            );
        }
    }
}
