//! Parallel work for many nodes, on a few threads.

use std::panic;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// More than usual processors, because threads mostly wait for the kernel.
const THREADS_MAX: usize = 16;

/// Runs `work` for all items in parallel; returns the results in the order of the items. Propagates a panic.
pub(crate) fn each<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = items.len().min(THREADS_MAX);
    let items = Mutex::new(items.into_iter().enumerate());
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let share = || {
        let mut results = Vec::new();
        while let Some((index, item)) = next() {
            results.push((index, work(item)));
        }
        results
    };
    let mut results = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(share)).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Vec<(usize, R)>>| {
            thread.join().unwrap_or_else(|cause| panic::resume_unwind(cause))
        };
        threads.into_iter().flat_map(join).collect::<Vec<_>>()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::each;

    #[test]
    fn parallel_results_keep_order_of_items() {
        let items: Vec<usize> = (0..100).collect();
        assert_eq!(
            each(items.clone(), |item| item * 2),
            items.iter().map(|item| item * 2).collect::<Vec<_>>()
        );
        assert!(each(Vec::<usize>::new(), |item| item).is_empty());
    }
}
