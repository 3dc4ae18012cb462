//! Prefetching into caches; only on x86 and ARM.

/// Prefetches the first cache line of `it`.
#[inline]
pub fn prefetch<T>(it: &T) {
    prefetch_index::prefetch_index(std::slice::from_ref(it), 0);
}
