//! Reads TOML files into tables of typed keys, and reports every mistake with its place.
//!
//! * [`read`] parses the text and collects [`Problems`].
//! * A [`Table`] gives access to values, and reports unknown keys.
//! * [`keys!`](crate::keys) declares a struct with a field for each key; functions of [`parse`] convert values.

pub mod parse;
pub(crate) mod problem;
mod purpose;
pub mod rearrange;
mod table;

use toml_span::{Spanned, Value};

pub use problem::{Problems, Remarks};
pub use purpose::Purpose;
pub use table::{Parsed, Table, closest, found};

use problem::{ConfigError, Problem};

/// Reads the TOML text of file `name`; `build` converts the document.
///
/// # Errors
/// Returns all errors that `build` reports, or the first syntax error.
///
/// # Panics
/// If `build` returns `None` without reporting an error.
pub fn read<T>(
    name: &str,
    text: &str,
    build: impl FnOnce(Value<'_>, &mut Problems) -> Option<T>,
) -> Result<(T, Remarks), ConfigError> {
    let mut problems = Problems::default();
    let built = match toml_span::parse(text) {
        Ok(root) => build(root, &mut problems),
        Err(error) => {
            let problem = Problem::error(format!("not TOML: {error}")).at(error.span, "here");
            problems.push(match text.trim_start().starts_with('{') {
                true => problem.help("`xoff import sonic FILE` converts the JSON of a SONiC switch"),
                false => problem,
            });
            None
        }
    };
    let remarks = problems.finish(name, text)?;
    Ok((built.expect("`build` must report an error if it returns no document"), remarks))
}

pub fn value<T: Clone>(key: Option<&Spanned<T>>, default: T) -> T {
    key.map_or(default, |key| key.value.clone())
}
