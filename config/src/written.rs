use xoff_wire::units::Bytes;

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

#[must_use]
pub fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count as u64), if count == 1 { one } else { many })
}

/// Returns memory in MiB, rounded up, so that a stated need always suffices.
#[must_use]
pub const fn mebibytes(needed: Bytes) -> u64 {
    needed.0.div_ceil(1 << 20)
}

/// Formats names as a list with ranges: `p1-p16, spine`.
#[must_use]
pub fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.into_iter().collect();
    names.dedup();
    let runs = names.chunk_by(|name, next| follows(name, next)).map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run[0].to_owned(),
    });
    runs.collect::<Vec<_>>().join(", ")
}

/// Returns whether `next` is `name` with its final number increased by one.
#[must_use]
pub fn follows(name: &str, next: &str) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name[stem.len()..].parse::<u64>().ok().and_then(|number| number.checked_add(1));
    number.is_some_and(|number| next.strip_prefix(stem) == Some(&number.to_string()))
}

/// Merges texts that differ in one word, such as a port's name; returns each with the index of its first
/// text.
#[must_use]
pub fn folded(texts: impl IntoIterator<Item = String>) -> Vec<(usize, String)> {
    let mut texts: Vec<(usize, String)> = texts.into_iter().enumerate().collect();
    loop {
        let before = texts.len();
        texts = folded_once(&texts); // again: the first time may merge classes, the second ports
        if texts.len() == before {
            return texts;
        }
    }
}

fn folded_once(texts: &[(usize, String)]) -> Vec<(usize, String)> {
    struct Group<'a> {
        first: usize,
        words: Vec<&'a str>,
        /// Index of the word that differs, and this word in all texts but the first.
        others: Option<(usize, Vec<&'a str>)>,
    }
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (index, text) in texts {
        let words: Vec<&str> = text.split(' ').collect();
        let difference = |group: &Group<'_>| {
            let mut differing = (0..words.len()).filter(|&at| group.words.get(at) != Some(&words[at]));
            let (at, further) = (differing.next()?, differing.next());
            let fits = group.others.as_ref().is_none_or(|(of_group, _)| *of_group == at);
            (fits && further.is_none() && group.words.len() == words.len()).then_some(at)
        };
        match groups.iter_mut().find_map(|group| difference(group).map(|at| (group, at))) {
            Some((group, at)) => group.others.get_or_insert((at, Vec::new())).1.push(words[at]),
            None => groups.push(Group { first: *index, words, others: None }),
        }
    }
    let text = |group: Group<'_>| {
        let Some((at, others)) = group.others else { return (group.first, group.words.join(" ")) };
        let (before, word, after) = (&group.words[..at], group.words[at], &group.words[at + 1..]);
        let merged =
            names(std::iter::once(word).chain(others).map(without_mark)) + &word[without_mark(word).len()..];
        (group.first, [before, &[merged.as_str()], after].concat().join(" "))
    };
    groups.into_iter().map(text).collect()
}

fn without_mark(word: &str) -> &str {
    word.trim_end_matches([',', ':', ';', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_shows_consecutive_numbers_as_range() {
        assert_eq!(ranges(&[0_u8, 1, 2, 4, 6, 7]), "0-2, 4, 6-7");
        assert_eq!(ranges::<u16>(&[]), "");
    }

    #[test]
    fn printed_number_has_digits_in_groups_of_three() {
        assert_eq!(
            [0, 999, 1000, 12_345, 1_234_567].map(grouped),
            ["0", "999", "1,000", "12,345", "1,234,567"]
        );
    }

    #[test]
    fn list_shows_names_with_consecutive_numbers_as_range() {
        assert_eq!(names(["p8", "p9", "p10", "spine", "h1", "h3"]), "p8-p10, spine, h1, h3");
        assert_eq!(names(["0", "1", "3"]), "0-1, 3");
    }

    #[test]
    fn needed_memory_is_rounded_up_to_mebibytes() {
        assert_eq!([0, 1, (1 << 20), (1 << 20) + 1].map(|bytes| mebibytes(Bytes(bytes))), [0, 1, 1, 2]);
    }

    #[test]
    fn printed_count_of_one_takes_singular_noun() {
        assert_eq!(
            [0, 1, 2000].map(|count| counted(count, "host", "hosts")),
            ["0 hosts", "1 host", "2,000 hosts"]
        );
    }

    #[test] // proves: check
    fn messages_that_differ_in_one_word_are_merged() {
        let fold = |texts: &[&str]| folded(texts.iter().map(|text| (*text).to_owned()));
        assert_eq!(
            fold(&["port a: late", "no router", "port b: late"]),
            [(0, "port a, b: late".to_owned()), (1, "no router".to_owned())]
        );
        let classes =
            ["class 3 of p1 is low", "class 4 of p1 is low", "class 3 of p2 is low", "class 4 of p2 is low"];
        assert_eq!(fold(&classes), [(0, "class 3-4 of p1-p2 is low".to_owned())]);
        let two = ["port a has 1 queue", "port b has 2 queue", "port b has 2 queues now"];
        assert_eq!(fold(&two).len(), 3);
        assert_eq!(fold(&["same", "same"]).len(), 2);
    }
}
