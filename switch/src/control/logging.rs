//! Where log lines go and which are written: to standard error, by the filter of `RUST_LOG` where it
//! is set, else by the configuration's `log`.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Not a filter.
    #[error(
        "{given_as} = {filter:?} is no log filter ({error}); give error, warn, info, debug or trace, or TARGET=LEVEL pairs"
    )]
    Filter {
        /// Where it was given.
        given_as: &'static str,
        /// What was given.
        filter: String,
        /// What is wrong with it.
        error: tracing_subscriber::filter::ParseError,
    },
    /// Logging was set up before.
    #[error("logging is set up already: {0}")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

/// Starts logging for the whole process.
///
/// # Errors
/// For a filter that does not parse, and when called twice.
pub fn start(configured: &str) -> Result<(), LogError> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(filter) if !filter.is_empty() => parse("RUST_LOG", &filter)?,
        _ => parse("log", configured)?,
    };
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    let lines = lines.with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    tracing_subscriber::util::SubscriberInitExt::try_init(lines.finish())?;
    Ok(())
}

fn parse(given_as: &'static str, filter: &str) -> Result<EnvFilter, LogError> {
    EnvFilter::try_new(filter).map_err(|error| LogError::Filter {
        given_as,
        filter: filter.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_filter_is_named_with_its_source() {
        assert!(parse("log", "info,xoff::control=debug").is_ok());
        let error = parse("log", "xoff=loud").map(|_| ()).map_err(|error| error.to_string());
        assert!(error.is_err_and(|message| message.starts_with(r#"log = "xoff=loud" is no log filter"#)));
    }
}
