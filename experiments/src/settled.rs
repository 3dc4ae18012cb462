//! Counters that belong together and change while they are read.

/// What `read` reads of counters that belong together and change meanwhile, as they were at one moment: whoever looks
/// may be kept from running between two loads. So it is read until twice the same was there.
pub fn settled<T: PartialEq>(mut read: impl FnMut() -> T) -> T {
    let mut before = read();
    loop {
        let now = read();
        if now == before {
            return now;
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_between_two_loads_is_read_again() {
        // XOFF was read before both were told, and XON afterwards.
        let mut reads = [(0, 1), (1, 1), (2, 1), (2, 1), (2, 2)].into_iter();
        assert_eq!(settled(|| reads.next()), Some((2, 1)));
        assert_eq!(reads.len(), 1, "and no more often than it has to be");
    }
}
