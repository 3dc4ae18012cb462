//! A TAP: an interface whose frames a process reads and writes. The kernel sees a device like any other; what it sends by that is read
//! here, whole and with its checksums, and what is written here is what it receives.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;

use crate::sys;

/// Where the kernel makes them.
const CLONE: &str = "/dev/net/tun";

/// A TAP that is gone when this is dropped.
#[derive(Debug)]
pub struct HostInterface {
    file: File,
    name: String,
}

impl HostInterface {
    /// The number of the request by which [`HostInterface::set_carrier`] is done, for who limits which are.
    pub const SET_CARRIER: u64 = sys::TUNSETCARRIER;

    /// A new one of that name, in the network namespace of the calling thread; it is down. Nothing of it blocks.
    ///
    /// # Errors
    /// What the kernel says: `AlreadyExists` where a device has that name, or `NotFound` without the module `tun`.
    pub fn new(name: &str) -> io::Result<HostInterface> {
        let label = CString::new(name).ok().filter(|label| label.as_bytes_with_nul().len() <= libc::IFNAMSIZ);
        let label = label.ok_or(io::ErrorKind::InvalidFilename)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(CLONE)?;
        match sys::make_tap(file.as_fd(), &label) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                Err(io::ErrorKind::AlreadyExists.into())
            }
            result => result.map(|()| HostInterface { file, name: name.to_owned() }),
        }
    }

    /// Its name when it was made.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the kernel is to see that somebody is at the other end.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_carrier(&self, is_there: bool) -> io::Result<()> {
        sys::set_carrier(self.file.as_fd(), is_there)
    }

    /// The next frame that the kernel sends, at the beginning of `into`: its length. A longer one is cut off.
    ///
    /// # Errors
    /// `WouldBlock` where there is none; else what the kernel says.
    pub fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(into)
    }

    /// Has the kernel receive a frame.
    ///
    /// # Errors
    /// What the kernel says: it may be down.
    pub fn write(&self, frame: &[u8]) -> io::Result<()> {
        (&self.file).write(frame).map(drop)
    }
}

impl AsFd for HostInterface {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
