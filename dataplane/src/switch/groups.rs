//! Floods: one frame that became several, and counts at its ingress until the last has left.

use crate::queue::NONE;

/// How many copies of each flood are still in the switch. Each holds a slot, so that there are never
/// more floods than slots.
#[derive(Debug)]
pub(super) struct Groups {
    /// Copies left; in a free entry, the next free one.
    entries: Box<[u32]>,
    free: u32,
}

impl Groups {
    pub(super) fn new(slots: u32) -> Groups {
        let entries = (1..=slots).map(|next| if next == slots { NONE } else { next }).collect();
        Groups { entries, free: if slots == 0 { NONE } else { 0 } }
    }

    /// A flood of `copies`, at least two.
    pub(super) fn open(&mut self, copies: u32) -> u32 {
        let group = self.free;
        let entry = &mut self.entries[group as usize];
        self.free = *entry;
        *entry = copies;
        group
    }

    /// One copy has left. True with the last.
    pub(super) fn leave(&mut self, group: u32) -> bool {
        let entry = &mut self.entries[group as usize];
        *entry -= 1;
        if *entry > 0 {
            return false;
        }
        *entry = self.free;
        self.free = group;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_copy_closes_the_flood_and_its_entry_is_used_again() {
        let mut groups = Groups::new(4);
        let (a, b) = (groups.open(3), groups.open(2));
        assert_ne!(a, b);
        assert_eq!([groups.leave(a), groups.leave(b), groups.leave(a)], [false; 3]);
        assert!(groups.leave(a));
        assert_eq!(groups.open(2), a);
        assert!(groups.leave(b));
    }
}
