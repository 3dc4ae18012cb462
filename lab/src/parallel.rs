use std::panic;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Maximum number of threads, which mostly wait for the kernel.
const THREADS_MAX: usize = 16;

/// Runs `work` for all items in parallel, and keeps their order. Propagates a panic. If no thread can be started, the caller does all work.
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
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, share).ok();
        let threads: Vec<_> = (1..threads).map_while(spawn).collect();
        let own = share();
        let join = |thread: thread::ScopedJoinHandle<'_, Vec<(usize, R)>>| {
            thread.join().unwrap_or_else(|cause| panic::resume_unwind(cause))
        };
        threads.into_iter().flat_map(join).chain(own).collect::<Vec<_>>()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use std::{fs, iter};

    use nix::sys::resource::{Resource, getrlimit, setrlimit};

    use super::*;

    pub(crate) fn without_threads<T>(work: impl FnOnce() -> T) -> T {
        let pages = fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = pages.split_once(' ').unwrap().0.parse().unwrap();
        let (soft, hard) = getrlimit(Resource::RLIMIT_AS).unwrap();
        setrlimit(Resource::RLIMIT_AS, (pages << 12) + (1 << 20), hard).unwrap();
        // Use up the stacks of ended threads: the C library gives them to new threads, which would then start despite the limit.
        let parked: Vec<_> = iter::from_fn(|| thread::Builder::new().spawn(thread::park).ok()).collect();
        let result = work();
        setrlimit(Resource::RLIMIT_AS, soft, hard).unwrap();
        for thread in parked {
            thread.thread().unpark();
            thread.join().unwrap();
        }
        result
    }

    #[test] // proves: lab-lifecycle
    fn parallel_work_is_done_by_caller_if_no_thread_starts() {
        let caller = thread::current().id();
        let done = without_threads(|| each(vec![1, 2], |item| (item, thread::current().id())));
        assert_eq!(done, [(1, caller), (2, caller)]);
    }

    #[test]
    fn parallel_work_returns_results_in_order_of_items() {
        let items: Vec<usize> = (0..100).collect();
        assert_eq!(
            each(items.clone(), |item| item * 2),
            items.iter().map(|item| item * 2).collect::<Vec<_>>()
        );
        assert!(each(Vec::<usize>::new(), |item| item).is_empty());
    }
}
