//! Accounts of floods: a flood counts once in its ingress queue until its last copy has left, so its account counts
//! unsent copies. Classes that are lossless at any port usually have no limit at egress, so this module limits the
//! copies in such classes.

use xoff_wire::units::{CLASSES, Class, ClassSet};

use crate::queue::NONE;

#[derive(Debug)]
pub(super) struct Accounts {
    /// Number of unsent copies of each flood; in a free entry, index of the next one.
    entries: Box<[u32]>,
    free: u32,
    bounded: ClassSet,
    most: u32,
    beyond_one: [u32; CLASSES],
}

impl Accounts {
    pub(super) fn new(slots: u32, bounded: ClassSet, most: u32) -> Accounts {
        let entries = (1..=slots).map(|next| if next == slots { NONE } else { next }).collect();
        Accounts { entries, free: if slots == 0 { NONE } else { 0 }, bounded, most, beyond_one: [0; CLASSES] }
    }

    pub(super) fn bounds(&self, class: Class) -> bool {
        self.bounded.contains(class)
    }

    pub(super) fn bound(&mut self, bounded: ClassSet) {
        self.bounded = bounded;
    }

    /// Opens the account of a flood to `copies` ports. Returns its number, and how many copies may be made. The caller
    /// must call [`leave`](Accounts::leave) for each copy that it does not make.
    pub(super) fn open(&mut self, class: Class, copies: u32) -> (u32, u32) {
        let account = self.free;
        let entry = &mut self.entries[account as usize];
        self.free = *entry;
        *entry = copies;
        let are_bounded = self.bounded.iter().map(|class| self.beyond_one[class.index()]).sum();
        self.beyond_one[class.index()] += copies - 1;
        match self.bounded.contains(class) {
            true => (account, self.most.saturating_sub(are_bounded)),
            false => (account, copies - 1),
        }
    }

    pub(super) fn leave(&mut self, class: Class, account: u32) -> bool {
        let entry = &mut self.entries[account as usize];
        *entry -= 1;
        if *entry > 0 {
            self.beyond_one[class.index()] -= 1;
            return false;
        }
        *entry = self.free;
        self.free = account;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_account_of_flood_is_freed_when_last_copy_leaves() {
        let mut accounts = Accounts::new(4, ClassSet::NONE, 0);
        let class = Class::ALL[0];
        let (a, b) = (accounts.open(class, 3).0, accounts.open(class, 2).0);
        assert_ne!(a, b);
        assert_eq!([a, b, a].map(|account| accounts.leave(class, account)), [false; 3]);
        assert!(accounts.leave(class, a));
        assert_eq!(accounts.open(class, 2).0, a);
        assert!(accounts.leave(class, b));
    }

    #[test] // proves: reload
    fn new_flood_copy_limit_counts_copies_made_before_it() {
        let class = Class::ALL[3];
        let mut accounts = Accounts::new(4, ClassSet::NONE, 3);
        let (before, _) = accounts.open(class, 3);
        accounts.bound(ClassSet(0b1000));
        assert_eq!(accounts.open(class, 2).1, 1, "a new limit must count copies made before it was set");
        accounts.bound(ClassSet::NONE);
        assert_eq!([(); 3].map(|()| accounts.leave(class, before)), [false, false, true]);
    }

    #[test] // proves: floods
    fn number_of_flood_copies_in_lossless_class_is_limited() {
        let [lossy, lossless] = [Class::ALL[0], Class::ALL[3]];
        let mut accounts = Accounts::new(4, ClassSet(0b1000), 3);
        assert_eq!(accounts.open(lossy, 9).1, 8);
        let (first, may_be_made) = accounts.open(lossless, 3);
        assert_eq!(may_be_made, 3);
        let (second, may_be_made) = accounts.open(lossless, 3);
        assert_eq!(may_be_made, 1, "the limit must count the copies of all floods");
        accounts.leave(lossless, second); // the copy that is not made
        assert_eq!(accounts.open(lossless, 2).1, 0);
        assert!(
            !accounts.leave(lossless, first)
                && !accounts.leave(lossless, first)
                && accounts.leave(lossless, first)
        );
        assert_eq!(accounts.open(lossless, 2).1, 1);
    }
}
