//! Formats numbers for people: ranges, and grouped digits.

/// Formats ascending numbers as ranges: `1, 10-19`.
#[must_use]
pub fn ranges<T: Copy + Into<u32>>(numbers: &[T]) -> String {
    let runs = numbers.chunk_by(|&left, &right| left.into() + 1 == right.into());
    let written = runs.map(|run| match run {
        [first, .., last] => format!("{}-{}", (*first).into(), (*last).into()),
        _ => run[0].into().to_string(),
    });
    written.collect::<Vec<_>>().join(", ")
}

/// Formats a number with digits in groups of three: `1,234,567`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let head = (digits.len() - 1) % 3 + 1;
    let tail = digits.as_bytes()[head..].chunks(3).map(|group| String::from_utf8_lossy(group));
    tail.fold(digits[..head].to_owned(), |text, group| text + "," + &group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_numbers_become_ranges() {
        assert_eq!(ranges(&[0_u8, 1, 2, 4, 6, 7]), "0-2, 4, 6-7");
        assert_eq!(ranges::<u16>(&[]), "");
    }

    #[test]
    fn numbers_are_grouped_by_three() {
        assert_eq!(
            [0, 999, 1000, 12_345, 1_234_567].map(grouped),
            ["0", "999", "1,000", "12,345", "1,234,567"]
        );
    }
}
