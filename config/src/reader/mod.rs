//! Reads TOML files into tables of typed keys, and reports every mistake with its place in the file.
//!
//! A file is read in three steps:
//!
//! 1. [`read`] parses the text and collects [`Problems`]. An error is shown with the related lines of the file.
//! 2. A [`Table`] gives access to the values under its keys, and reports unknown keys.
//! 3. A struct that [`keys!`](crate::keys) declares has one field for each key of a table. The functions of [`parse`]
//!    convert each value to its type, or return the allowed values.
//!
//! [`rearrange`] is for files that contain the documents of several switches.

pub mod parse;
pub(crate) mod problem;
pub mod rearrange;
mod table;

use toml_span::{Spanned, Value};

pub use problem::{Problems, Remarks};
pub use table::{Parsed, Table, closest, found};

use problem::{ConfigError, Problem};

/// Reads `text`, a TOML file that messages call `name`: `build` converts the document to a value, and reports its
/// errors.
///
/// # Errors
/// Returns all errors that `build` reports; for text that is not TOML, the first syntax error.
///
/// # Panics
/// Panics if `build` returns `None` and reports no error.
pub fn read<T>(
    name: &str,
    text: &str,
    build: impl FnOnce(Value<'_>, &mut Problems) -> Option<T>,
) -> Result<(T, Remarks), ConfigError> {
    let mut problems = Problems::default();
    let built = match toml_span::parse(text) {
        Ok(root) => build(root, &mut problems),
        Err(error) => {
            problems.push(Problem::error(format!("not TOML: {error}")).at(error.span, "here"));
            None
        }
    };
    let remarks = problems.finish(name, text)?;
    Ok((built.expect("a document without errors is complete"), remarks))
}

/// Returns the value of `key`, or `default` if the file lacks the key.
pub fn value<T: Clone>(key: Option<&Spanned<T>>, default: T) -> T {
    key.map_or(default, |key| key.value.clone())
}
