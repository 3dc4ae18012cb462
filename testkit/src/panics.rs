//! Catches panics that count as findings, and returns their messages instead of printing them ([`catch`]).

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

thread_local! {
    /// Message of the caught panic; `None` outside [`catch`].
    static TRIAL: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

pub(crate) fn catch<T>(tried: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !note(info) {
                before(info);
            }
        }));
    });
    TRIAL.set(Some(String::new()));
    let done = panic::catch_unwind(AssertUnwindSafe(tried));
    let message = TRIAL.take().unwrap_or_default();
    done.map_err(|_| message)
}

fn note(info: &PanicHookInfo<'_>) -> bool {
    TRIAL.with_borrow_mut(|trial| {
        let Some(message) = trial else { return false };
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("panic without a message");
        let place =
            info.location().map_or_else(String::new, |at| format!(", in {}:{}", at.file(), at.line()));
        *message = format!("{text}{place}");
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // proves: chaos
    fn caught_panic_yields_message_and_source_line() {
        assert_eq!(catch(|| 7), Ok(7));
        let message = catch(|| panic!("frame {} is lost", 8)).expect_err("the closure did not panic");
        assert!(message.starts_with("frame 8 is lost, in ") && message.contains("panics.rs:"), "{message}");
        assert_eq!(catch(|| 9), Ok(9));
        assert!(TRIAL.with_borrow(Option::is_none), "panics must not be caught after `catch` returned");
    }
}
