use std::borrow::Cow;

/// Replaces control characters, which could move the cursor or change the writing direction, by visible signs. Line
/// feeds and tabs remain.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    match text.chars().any(|c| sign(c).is_some()) {
        false => Cow::Borrowed(text),
        true => Cow::Owned(text.chars().map(|c| sign(c).unwrap_or(c)).collect()),
    }
}

/// Converts a byte position in `text` to the position in [`visible`] text.
pub(crate) fn visible_at(text: &str, at: usize) -> usize {
    let wider = |c: char| sign(c).map_or(c.len_utf8(), char::len_utf8);
    text[..at].chars().map(wider).sum()
}

fn sign(c: char) -> Option<char> {
    match c {
        '\n' | '\t' => None,
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(c)),
        '\x7f' => Some('␡'),
        '\u{80}'..='\u{9f}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some(char::REPLACEMENT_CHARACTER)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced_by_visible_signs() {
        let text = "a\u{1b}[2J\r\u{9b}\u{202e}b\tc\n";
        assert_eq!(visible(text), "a␛[2J␍\u{fffd}\u{fffd}b\tc\n");
        assert!(matches!(visible("grün\n"), Cow::Borrowed("grün\n")));
        for (at, _) in text.char_indices() {
            assert_eq!(visible(&text[..at]).len(), visible_at(text, at), "{at}");
        }
    }
}
