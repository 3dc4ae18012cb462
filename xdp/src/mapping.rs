use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to no thread; the callers of `at` are responsible for accesses.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`; `&Mapping` gives out addresses only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps zeroed private memory, excluded from core dumps because it holds other people's frames.
    pub(crate) fn anonymous(bytes: usize) -> io::Result<Mapping> {
        let memory = map(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)?;
        // SAFETY: the range was just mapped; the advice changes no byte.
        match unsafe { libc::madvise(memory.start.as_ptr().cast(), bytes, libc::MADV_DONTDUMP) } {
            0 => Ok(memory),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Maps private memory, touches each page and tries to lock it, so that later accesses cause no page fault.
    pub(crate) fn resident(bytes: usize) -> io::Result<Mapping> {
        const PAGE: usize = 4096;
        let memory = Mapping::anonymous(bytes)?;
        for offset in (0..bytes).step_by(PAGE) {
            // SAFETY: the address is inside the mapping, which nobody else has yet.
            unsafe { memory.at::<u8>(offset, 1).write_volatile(0) };
        }
        // SAFETY: the range was just mapped. Beyond the limit of locked memory the call fails without CAP_IPC_LOCK;
        // then the pages may be swapped out.
        let _ = unsafe { libc::mlock(memory.start.as_ptr().cast(), bytes) };
        Ok(memory)
    }

    pub(crate) fn of_socket(socket: BorrowedFd<'_>, offset: i64, bytes: usize) -> io::Result<Mapping> {
        map(bytes, libc::MAP_SHARED | libc::MAP_POPULATE, socket.as_raw_fd(), offset)
    }

    pub(crate) fn place(&self) -> (u64, u64) {
        (self.start.addr().get() as u64, self.bytes as u64)
    }

    /// Returns the address of `count` values at `offset` bytes.
    ///
    /// # Panics
    ///
    /// If the values are outside the mapping or not aligned.
    pub(crate) fn at<T>(&self, offset: usize, count: usize) -> NonNull<T> {
        let end = count.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(offset));
        assert!(
            end.is_some_and(|end| end <= self.bytes),
            "{count} values at offset {offset} exceed the {} bytes of the mapping",
            self.bytes
        );
        // SAFETY: the address is inside the mapping, as was just checked.
        let address = unsafe { self.start.add(offset) }.cast::<T>();
        assert!(address.is_aligned(), "offset {offset} is not aligned for a {}", std::any::type_name::<T>());
        address
    }
}

fn map(bytes: usize, flags: libc::c_int, file: libc::c_int, offset: i64) -> io::Result<Mapping> {
    // SAFETY: the system chooses the address, so that no existing mapping is replaced.
    let start = unsafe {
        libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, file, offset)
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let start = NonNull::new(start.cast()).expect("mmap returned address zero");
    Ok(Mapping { start, bytes })
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `map` mapped this range, and every user of its addresses keeps the mapping.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test] // proves: privileges
    fn packet_memory_is_excluded_from_core_dumps() {
        let memory = Mapping::anonymous(1 << 20).unwrap();
        let at = memory.at::<u8>(0, 1).addr().get();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let within = |line: &str| {
            let (from, rest) = line.split_once('-')?;
            let [from, to] = [from, rest.split(' ').next()?].map(|hex| usize::from_str_radix(hex, 16).ok());
            Some((from?..to?).contains(&at))
        };
        let lines = maps.lines().skip_while(|line| within(line) != Some(true));
        let flags = lines.skip(1).find_map(|line| line.strip_prefix("VmFlags:")).unwrap();
        assert!(flags.split_whitespace().any(|flag| flag == "dd"), "{flags}");
    }

    #[test]
    fn values_beyond_the_memory_mapping_are_refused() {
        let memory = Mapping::anonymous(64).unwrap();
        assert_eq!(memory.at::<u64>(56, 1).addr().get() - memory.at::<u64>(0, 8).addr().get(), 56);
    }

    #[test]
    #[should_panic(expected = "9 values at offset 0 exceed the 64 bytes of the mapping")]
    fn ring_larger_than_its_memory_is_refused() {
        Mapping::anonymous(64).unwrap().at::<u64>(0, 9);
    }

    #[test]
    #[should_panic(expected = "offset 4 is not aligned for a u64")]
    fn unaligned_offset_into_mapping_is_refused() {
        Mapping::anonymous(64).unwrap().at::<u64>(4, 1);
    }
}
