//! Journal of device changes, each written before it is made.
//!
//! After a kill, the next process or `xoff nic restore` restores a device from its page, except settings that another
//! program changed.
//!
//! A page names the boot, the network namespace and the permanent address, because a device's name and address may
//! change. The page's position in the journal is the device's index.

use std::fs;
use std::io;
use std::sync::LazyLock;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use xoff_ebpf::Claim;
use xoff_wire::units::MacAddr;

use crate::sys;

/// Identifier of this boot, read only once, because reading fails at the limit of open files.
static BOOT: LazyLock<String> = LazyLock::new(|| {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
});

/// Kind of process that changes a device: a switch, or `xoff nic`, a host's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    Switch,
    Host,
}

#[derive(Debug, Serialize, Deserialize)]
struct Page<T> {
    boot: String,
    namespace: u64,
    permanent_address: u64,
    owner: Owner,
    changes: T,
}

/// Content of a device's page in the journal: the changes that the last owner did not undo.
#[derive(Debug, PartialEq, Eq)]
pub enum Left<T> {
    /// No changes to undo: the last owner undid them, or made them in another boot, namespace or device.
    Nothing,
    /// Changes by the reader's kind of [`Owner`].
    Changes(T),
    /// Changes by the other kind of [`Owner`].
    Other,
    /// Unreadable page; the text warns and names commands to check the device.
    Unreadable(String),
}

#[derive(Clone, Copy, Debug)]
pub struct Journal {
    owner: Owner,
    namespace: u64,
    permanent_address: u64,
}

impl Journal {
    /// Returns the journal of a device in the calling thread's network namespace. `permanent_address` is zero if there is
    /// none.
    #[must_use]
    pub fn of(owner: Owner, permanent_address: MacAddr) -> Journal {
        Journal {
            owner,
            namespace: sys::namespace_cookie(),
            permanent_address: permanent_address.to_number(),
        }
    }

    #[must_use]
    pub fn left<T: DeserializeOwned>(&self, claim: &Claim) -> Left<T> {
        self.read(&claim.journal(), claim.device())
    }

    fn read<T: DeserializeOwned>(&self, text: &[u8], device: &str) -> Left<T> {
        if text.is_empty() {
            return Left::Nothing;
        }
        let Ok(page) = serde_json::from_slice::<Page<serde_json::Value>>(text) else {
            return Left::unreadable(device);
        };
        let written_for = (page.boot.as_str(), page.namespace, page.permanent_address);
        if written_for != (BOOT.as_str(), self.namespace, self.permanent_address) {
            return Left::Nothing;
        }
        if page.owner != self.owner {
            return Left::Other;
        }
        serde_json::from_value(page.changes).map_or_else(|_| Left::unreadable(device), Left::Changes)
    }

    /// Writes the device's page; call this before each change of the device.
    ///
    /// # Errors
    /// Fails if the page cannot be written; the caller must then change nothing.
    pub fn write(&self, claim: &Claim, changes: &impl Serialize) -> io::Result<()> {
        self.page(changes).and_then(|text| claim.write_journal(&text)).map_err(|error| {
            io::Error::other(format!(
                "the journal in /run/xoff/interfaces cannot be written, so nothing is changed: {error}"
            ))
        })
    }

    fn page(&self, changes: &impl Serialize) -> io::Result<Vec<u8>> {
        let Journal { owner, namespace, permanent_address } = *self;
        let page = Page { boot: BOOT.clone(), namespace, permanent_address, owner, changes };
        serde_json::to_vec(&page).map_err(io::Error::other)
    }

    pub fn clear(claim: &Claim) {
        let _ = claim.write_journal(&[]); // if this fails, the page is harmless: restored settings are skipped
    }
}

impl<T> Left<T> {
    fn unreadable(device: &str) -> Left<T> {
        Left::Unreadable(format!(
            "journal of {device} unreadable; nothing restored after the killed xoff: check `ip -d link show dev {device}`, \
             `tc qdisc show dev {device}` and `ethtool -k {device}`, and correct the settings by hand"
        ))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const JOURNAL: Journal = Journal { owner: Owner::Switch, namespace: 7, permanent_address: 1 };

    fn read<T: DeserializeOwned>(journal: Journal, page: &[u8]) -> Left<T> {
        journal.read(page, "eth0")
    }

    #[test] // proves: host-guard
    fn journal_page_of_other_device_or_boot_is_ignored() {
        let page = JOURNAL.page(&5).unwrap();
        assert_eq!(read(JOURNAL, &page), Left::Changes(5));
        assert_eq!(read::<u32>(JOURNAL, &[]), Left::Nothing);
        assert_eq!(read::<u32>(Journal { owner: Owner::Host, ..JOURNAL }, &page), Left::Other);
        assert_eq!(read::<u32>(Journal { namespace: 8, ..JOURNAL }, &page), Left::Nothing);
        assert_eq!(read::<u32>(Journal { permanent_address: 2, ..JOURNAL }, &page), Left::Nothing);
        let text = String::from_utf8(page).unwrap().replacen(BOOT.as_str(), "another", 1);
        assert_eq!(read::<u32>(JOURNAL, text.as_bytes()), Left::Nothing);
    }

    #[test]
    fn warning_about_unreadable_journal_page_has_check_commands() {
        let page = JOURNAL.page(&5).unwrap();
        for left in [read::<String>(JOURNAL, &page), read(JOURNAL, &page[..page.len() - 1])] {
            let Left::Unreadable(warning) = left else { panic!("{left:?}") };
            for command in ["ip -d link show dev eth0", "tc qdisc show dev eth0", "ethtool -k eth0"] {
                assert!(warning.contains(command), "the warning must name {command}: {warning}");
            }
        }
    }
}
