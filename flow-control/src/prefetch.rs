//! What is needed soon is brought near before: it comes out of memory while something else is done.
//!
//! Nothing that happens depends on it. It pays where the next is known and lies in no cache near by: the frame behind the one
//! that leaves, what a port needs that has its turn soon. On processors other than x86 and ARM it does nothing.

/// Has the cache line brought near in which `it` begins.
#[inline]
pub fn prefetch<T>(it: &T) {
    prefetch_index::prefetch_index(std::slice::from_ref(it), 0);
}
