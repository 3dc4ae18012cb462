//! Prefetching of data that are needed soon but not cached. On processors other than x86 and ARM it does nothing.

/// Prefetches the cache line in which `it` begins.
#[inline]
pub fn prefetch<T>(it: &T) {
    prefetch_index::prefetch_index(std::slice::from_ref(it), 0);
}
