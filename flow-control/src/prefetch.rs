//! Prefetching of data into CPU caches (x86 and ARM only).

/// Prefetches the first cache line of `it`.
#[inline]
pub fn prefetch<T>(it: &T) {
    prefetch_index::prefetch_index(std::slice::from_ref(it), 0);
}
