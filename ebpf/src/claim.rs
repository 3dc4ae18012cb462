//! Exclusive claims on interfaces, released when the process ends.
//!
//! An XDP program in generic mode outlives its process, so only a file lock proves that a switch runs. Each network
//! namespace has a lock file and a journal of device changes, in a directory that only root or the user of all xoff
//! services may enter.
//!
//! The owner of an interface locks the interface's entry, and writes its process id and its XDP program's id there.
//! From these ids, the next owner recognizes a killed process's program without CAP_SYS_ADMIN.
//!
//! The files stay open, because a process that has dropped its privileges cannot open them again. Each process lists
//! its claims, because the kernel would lock an entry twice for the same open file.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use crate::EbpfError;

const DIRECTORY: &str = "/run/xoff/interfaces";
const WORD: usize = 4;
/// Size in bytes of an interface's entry in the lock file. The XDP program's id begins at byte [`PROGRAM`].
const ENTRY: u64 = 16;
const PROGRAM: u64 = 4;
const PAGE: usize = 4096;
const RETRY_EVERY: Duration = Duration::from_millis(5);

static TABLES: Mutex<BTreeMap<u64, Table>> = Mutex::new(BTreeMap::new());

/// Exclusive claim on an interface. Dropping it releases the interface.
#[derive(Debug)]
pub struct Claim {
    device: String,
    ifindex: i32,
    namespace: u64,
    left: Option<u32>,
}

#[derive(Debug)]
struct Table {
    file: File,
    journal: File,
    ours: BTreeSet<i32>,
}

enum Refused {
    Held(Option<u32>),
    System(io::Error),
}

impl Claim {
    /// Claims an interface in the calling thread's network namespace.
    ///
    /// # Errors
    /// Returns [`EbpfError::AnotherXoff`] if the interface is already claimed, and [`EbpfError::Unclaimed`] if the
    /// lock file or its directory is unusable.
    pub fn take(device: &str, ifindex: i32) -> Result<Claim, EbpfError> {
        Claim::take_within(Duration::ZERO, device, ifindex)
    }

    /// Claims an interface, and waits up to `patience` for another process to release it.
    pub fn take_within(patience: Duration, device: &str, ifindex: i32) -> Result<Claim, EbpfError> {
        let (device, deadline) = (device.to_owned(), Instant::now() + patience);
        loop {
            match take(ifindex) {
                Ok((namespace, left)) => return Ok(Claim { device, ifindex, namespace, left }),
                Err(Refused::System(source)) => {
                    return Err(EbpfError::Unclaimed { device, directory: DIRECTORY, source });
                }
                Err(Refused::Held(_)) if Instant::now() < deadline => thread::sleep(RETRY_EVERY),
                Err(Refused::Held(process)) => return Err(EbpfError::AnotherXoff { device, process }),
            }
        }
    }

    #[must_use]
    pub fn device(&self) -> &str {
        &self.device
    }

    pub(crate) fn ifindex(&self) -> i32 {
        self.ifindex
    }

    pub(crate) fn left(&self) -> Option<u32> {
        self.left
    }

    #[must_use]
    pub fn journal(&self) -> Vec<u8> {
        tables().get(&self.namespace).map(|table| table.page(self.ifindex)).unwrap_or_default()
    }

    /// Overwrites the interface's page in the journal, from which the next process restores the device after a kill.
    ///
    /// # Errors
    /// Fails if `text` has more than 4096 bytes, or the system cannot write.
    pub fn write_journal(&self, text: &[u8]) -> io::Result<()> {
        let tables = tables();
        let table = tables.get(&self.namespace).ok_or(io::ErrorKind::NotFound)?;
        table.write_page(self.ifindex, text)
    }

    pub(crate) fn attached(&self, program: u32) {
        self.write(PROGRAM, program);
    }

    fn write(&self, word: u64, value: u32) {
        if let Some(table) = tables().get(&self.namespace) {
            table.write(place(self.ifindex) + word, value);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(table) = tables().get_mut(&self.namespace) {
            table.release(self.ifindex);
        }
    }
}

fn tables() -> MutexGuard<'static, BTreeMap<u64, Table>> {
    TABLES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take(ifindex: i32) -> Result<(u64, Option<u32>), Refused> {
    let namespace = fs::metadata("/proc/thread-self/ns/net").map_err(Refused::System)?.ino();
    let mut tables = tables();
    let table = match tables.entry(namespace) {
        Entry::Occupied(table) => table.into_mut(),
        Entry::Vacant(place) => {
            place.insert(Table::open(Path::new(DIRECTORY), namespace).map_err(Refused::System)?)
        }
    };
    Ok((namespace, table.take(ifindex)?))
}

impl Table {
    fn open(directory: &Path, namespace: u64) -> io::Result<Table> {
        if let Some(parent) = directory.parent() {
            fs::create_dir_all(parent)?;
        }
        match DirBuilder::new().mode(0o700).create(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let made = fs::metadata(directory)?; // follows a link
        if !made.is_dir() || made.mode() & 0o077 != 0 {
            return Err(io::Error::other("the path must be a directory that other users cannot access"));
        }
        let open = |name: String| {
            let mut open = OpenOptions::new();
            let open = open.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = open.open(directory.join(name))?;
            if file.metadata()?.uid() != made.uid() {
                fchown(&file, Some(made.uid()), Some(made.gid()))?;
            }
            Ok::<_, io::Error>(file)
        };
        let (file, journal) = (open(namespace.to_string())?, open(format!("{namespace}.journal"))?);
        Ok(Table { file, journal, ours: BTreeSet::new() })
    }

    fn page(&self, ifindex: i32) -> Vec<u8> {
        let mut page = vec![0; PAGE];
        let len = self.journal.read_at(&mut page, page_of(ifindex)).unwrap_or(0);
        page.truncate(len);
        page.truncate(page.iter().position(|&byte| byte == 0).unwrap_or(len));
        page
    }

    fn write_page(&self, ifindex: i32, text: &[u8]) -> io::Result<()> {
        if text.len() > PAGE {
            return Err(io::Error::other(
                "the text must fit in the interface's page of the journal: 4096 bytes",
            ));
        }
        let mut page = text.to_vec();
        page.resize(PAGE, 0);
        self.journal.write_all_at(&page, page_of(ifindex))
    }

    fn take(&mut self, ifindex: i32) -> Result<Option<u32>, Refused> {
        if self.ours.contains(&ifindex) {
            return Err(Refused::Held(Some(std::process::id())));
        }
        match self.lock(ifindex, libc::F_WRLCK) {
            Ok(()) => {}
            Err(Errno::EAGAIN | Errno::EACCES) => return Err(Refused::Held(self.read(place(ifindex)))),
            Err(error) => return Err(Refused::System(error.into())),
        }
        self.ours.insert(ifindex);
        self.write(place(ifindex), std::process::id());
        Ok(self.read(place(ifindex) + PROGRAM))
    }

    fn release(&mut self, ifindex: i32) {
        self.ours.remove(&ifindex);
        self.write(place(ifindex), 0);
        let _ = self.lock(ifindex, libc::F_UNLCK);
    }

    fn lock(&self, ifindex: i32, kind: i32) -> nix::Result<()> {
        #[allow(clippy::cast_possible_truncation)]
        let lock = libc::flock {
            l_type: kind as i16,
            l_whence: libc::SEEK_SET as i16,
            l_start: place(ifindex).cast_signed(),
            l_len: ENTRY.cast_signed(),
            l_pid: 0,
        };
        fcntl(&self.file, FcntlArg::F_OFD_SETLK(&lock)).map(drop)
    }

    fn read(&self, place: u64) -> Option<u32> {
        let mut word = [0; WORD];
        self.file.read_exact_at(&mut word, place).ok()?;
        Some(u32::from_ne_bytes(word)).filter(|&word| word > 0)
    }

    fn write(&self, place: u64, word: u32) {
        let _ = self.file.write_all_at(&word.to_ne_bytes(), place);
    }
}

fn place(ifindex: i32) -> u64 {
    u64::from(ifindex.cast_unsigned()) * ENTRY
}

fn page_of(ifindex: i32) -> u64 {
    u64::from(ifindex.cast_unsigned()) * PAGE as u64
}

// Tests for SPECIFICATION.md: start-stop
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn interface_has_at_most_one_claim() {
        let index = i32::MAX;
        let claim = Claim::take("eth1", index).unwrap();
        let again = Claim::take("eth1", index).unwrap_err();
        assert_eq!(
            again.to_string(),
            "eth1 is a port of this xoff already, perhaps by another name (`ip link show dev eth1` lists its names); give each port a \
             device of its own"
        );
        assert!(Claim::take("eth2", index - 1).is_ok());
        drop(claim);
        assert!(Claim::take("eth1", index).is_ok());
    }

    #[test]
    fn refused_claim_names_process_that_owns_interface() {
        let directory = tempfile::tempdir().unwrap();
        let inside = directory.path().join("interfaces");
        let [mut first, mut second] = [0; 2].map(|_| Table::open(&inside, 7).unwrap()); // two open files, as of two processes
        assert!(first.take(3).is_ok());
        let named =
            |refused| matches!(refused, Err(Refused::Held(Some(process))) if process == std::process::id());
        assert!(named(second.take(3)));
        assert!(second.take(4).is_ok() && named(first.take(4)));
        first.release(3);
        assert!(second.take(3).is_ok());
    }

    #[test] // proves: own-stack, start-stop
    fn next_owner_reads_xdp_program_id_of_killed_process() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Table::open(&directory.path().join("interfaces"), 7).unwrap();
        let mut killed = open();
        assert!(killed.take(3).is_ok_and(|left| left.is_none()));
        killed.write(place(3) + PROGRAM, 42);
        drop(killed);
        let mut next = open();
        assert!(next.take(3).is_ok_and(|left| left == Some(42)));
        assert!(next.take(4).is_ok_and(|left| left.is_none()));
        next.release(3);
        let again = open().take(3);
        assert!(again.is_ok_and(|left| left == Some(42)), "the released entry must keep the program's id");
    }

    #[test]
    fn next_process_reads_journal_page_of_killed_owner() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Table::open(&directory.path().join("interfaces"), 7).unwrap();
        let killed = open();
        assert!(killed.page(3).is_empty() && killed.page(4).is_empty());
        killed.write_page(4, b"fourth").unwrap();
        killed.write_page(3, b"a longer one").unwrap();
        killed.write_page(3, b"third").unwrap();
        assert!(killed.write_page(3, &[1; PAGE + 1]).is_err());
        drop(killed);
        assert_eq!((open().page(3), open().page(4)), (b"third".to_vec(), b"fourth".to_vec()));
        open().write_page(3, b"").unwrap();
        assert!(open().page(3).is_empty());
    }

    #[test]
    fn other_users_cannot_open_interface_lock_file() {
        let _claim = Claim::take("eth1", i32::MAX - 2).unwrap();
        let file = fs::read_dir(DIRECTORY).unwrap().next().unwrap().unwrap().path();
        let mut open = Command::new("sh");
        open.arg("-c").arg(format!("exec 3<{}", file.display()));
        assert!(open.status().unwrap().success(), "root must be able to open the lock file");
        assert!(
            !open.uid(65_534).gid(65_534).status().unwrap().success(),
            "other users must not be able to open the lock file"
        );
    }

    #[test]
    fn claim_directory_open_to_other_users_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let inside = directory.path().join("interfaces");
        drop(Table::open(&inside, 7).unwrap());
        fs::set_permissions(&inside, fs::Permissions::from_mode(0o711)).unwrap();
        assert!(Table::open(&inside, 7).is_err());
    }
}
