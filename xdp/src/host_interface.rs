//! TAP device: a network interface whose frames a process reads and writes.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;

use crate::sys;

const CLONE: &str = "/dev/net/tun";

/// TAP device, which the kernel removes when this value is dropped.
#[derive(Debug)]
pub struct HostInterface {
    file: File,
    name: String,
}

impl HostInterface {
    /// Number of the ioctl TUNSETCARRIER, which system-call filters must allow.
    pub const SET_CARRIER: u64 = sys::TUNSETCARRIER;

    /// Creates a TAP device, which is down, in the calling thread's network namespace. Its file does not block.
    ///
    /// # Errors
    /// Fails with `AlreadyExists` if a device has that name, and with `NotFound` without the module `tun`.
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

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn set_carrier(&self, is_there: bool) -> io::Result<()> {
        sys::set_carrier(self.file.as_fd(), is_there)
    }

    /// Reads the next frame from the kernel, truncated to `into`; returns its length.
    ///
    /// # Errors
    /// Fails with `WouldBlock` if there is no frame.
    pub fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(into)
    }

    /// Passes a frame to the kernel as received from the network.
    pub fn write(&self, frame: &[u8]) -> io::Result<()> {
        (&self.file).write(frame).map(drop)
    }
}

impl AsFd for HostInterface {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
