//! What is about to be changed of a device, written down before it is changed: a process that is killed at any moment leaves a page
//! from which the next one, or `xoff nic --restore`, puts back what was there.
//!
//! A page is of one device: it names the boot, the network namespace and the address. Where one of them differs, it is of no use. Only
//! values that still are as they were set are put back; what somebody has changed since stays.

use std::fs;
use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use xoff_dataplane::units::MacAddr;
use xoff_ebpf::Claim;

use crate::sys;

/// Whose changes a page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// A switch's port.
    Switch,
    /// The agent of a host.
    Host,
}

/// A page.
#[derive(Debug, Serialize, Deserialize)]
struct Page<T> {
    boot: String,
    namespace: u64,
    address: u64,
    owner: Owner,
    changes: T,
}

/// What a page says to whoever comes next.
#[derive(Debug, PartialEq, Eq)]
pub enum Left<T> {
    /// Nothing: whoever had the device has put it back.
    Nothing,
    /// What an owner of the same kind was about to change.
    Changes(T),
    /// An owner of the other kind has left something.
    Other,
    /// It is of no use, and why.
    Useless(&'static str),
}

/// The page of a device, for an owner of that kind.
#[derive(Clone, Copy, Debug)]
pub struct Journal {
    owner: Owner,
    namespace: u64,
}

impl Journal {
    /// Of the network namespace of the calling thread.
    #[must_use]
    pub fn of(owner: Owner) -> Journal {
        Journal { owner, namespace: sys::namespace_cookie() }
    }

    /// Reads what whoever had the device before has left.
    #[must_use]
    pub fn left<T: DeserializeOwned>(&self, claim: &Claim, address: MacAddr) -> Left<T> {
        self.read(&claim.journal(), address)
    }

    fn read<T: DeserializeOwned>(&self, text: &[u8], address: MacAddr) -> Left<T> {
        if text.is_empty() {
            return Left::Nothing;
        }
        let Ok(page) = serde_json::from_slice::<Page<serde_json::Value>>(text) else {
            return Left::Useless("it cannot be read");
        };
        if page.boot != boot() {
            return Left::Useless("it was written before the machine was started");
        }
        if (page.namespace, page.address) != (self.namespace, address.to_number()) {
            return Left::Useless("it is of another device");
        }
        if page.owner != self.owner {
            return Left::Other;
        }
        serde_json::from_value(page.changes).map_or(Left::Useless("it cannot be read"), Left::Changes)
    }

    /// Writes down what is about to be changed, or is, and then does it. The only way to a change.
    ///
    /// # Errors
    /// Where it cannot be written nothing is changed; and what the change says.
    pub fn before<T>(
        &self,
        claim: &Claim,
        address: MacAddr,
        changes: &impl Serialize,
        change: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        self.before_in(|text| claim.write_journal(text), address, changes, change)
    }

    fn before_in<T>(
        &self,
        write: impl FnOnce(&[u8]) -> io::Result<()>,
        address: MacAddr,
        changes: &impl Serialize,
        change: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let Journal { owner, namespace } = *self;
        let page = Page { boot: boot(), namespace, address: address.to_number(), owner, changes };
        let text = serde_json::to_vec(&page).map_err(io::Error::other)?;
        write(&text).map_err(|error| {
            io::Error::other(format!(
                "what was there cannot be written down in /run/xoff/interfaces: {error}"
            ))
        })?;
        change()
    }

    /// Nothing is left.
    pub fn clear(claim: &Claim) {
        let _ = claim.write_journal(&[]); // what is as it was is not put back by a page that stays
    }
}

/// Which start of the machine this is; nothing where that is not shown.
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const ADDRESS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const JOURNAL: Journal = Journal { owner: Owner::Switch, namespace: 7 };

    fn written(journal: Journal, changes: u32) -> Vec<u8> {
        let mut page = Vec::new();
        let write = |text: &[u8]| {
            page = text.to_vec();
            Ok(())
        };
        journal.before_in(write, ADDRESS, &changes, || Ok(())).unwrap();
        page
    }

    #[test]
    fn change_is_written_down_before_it_is_made() {
        let order = RefCell::new(Vec::new());
        let write = |_: &[u8]| {
            order.borrow_mut().push("written");
            Ok(())
        };
        JOURNAL
            .before_in(write, ADDRESS, &1, || {
                order.borrow_mut().push("made");
                Ok(())
            })
            .unwrap();
        assert_eq!(*order.borrow(), ["written", "made"]);
        let full = |_: &[u8]| Err(io::ErrorKind::StorageFull.into());
        let refused =
            JOURNAL.before_in(full, ADDRESS, &1, || -> io::Result<()> { unreachable!("it is not written") });
        assert!(refused.is_err());
    }

    #[test]
    fn page_is_of_one_device_and_one_boot() {
        let page = written(JOURNAL, 5);
        let read = |journal: Journal, page: &[u8]| journal.read::<u32>(page, ADDRESS);
        assert_eq!(read(JOURNAL, &page), Left::Changes(5));
        assert_eq!(read(JOURNAL, &[]), Left::Nothing);
        assert_eq!(read(Journal { owner: Owner::Host, ..JOURNAL }, &page), Left::Other);
        let of_another = Left::Useless("it is of another device");
        assert_eq!(read(Journal { namespace: 8, ..JOURNAL }, &page), of_another);
        assert_eq!(JOURNAL.read::<u32>(&page, MacAddr([2, 0, 0, 0, 0, 2])), of_another);
        let text = String::from_utf8(page.clone()).unwrap().replacen(&boot(), "another", 1);
        assert_eq!(
            read(JOURNAL, text.as_bytes()),
            Left::Useless("it was written before the machine was started")
        );
        assert_eq!(read(JOURNAL, &page[..page.len() - 1]), Left::Useless("it cannot be read"));
        assert_eq!(JOURNAL.read::<String>(&page, ADDRESS), Left::Useless("it cannot be read"));
    }
}
