//! xoff's configuration: a TOML file becomes validated types, and every default stands in one place.

#![forbid(unsafe_code)]

pub mod shell;

use xoff_dataplane::headroom::Headroom;
use xoff_dataplane::settings::SwitchSettings;
use xoff_dataplane::units::CLASSES;

pub use shell::ShellSettings;

/// A validated configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// For the dataplane. Ports' MAC addresses are zero until the shell has seen the devices.
    pub switch: SwitchSettings,
    /// For the shell around it.
    pub shell: ShellSettings,
    /// Headroom as computed, by port and class; `None` where a class is lossy or the file gave a number.
    pub headroom: Vec<[Option<Headroom>; CLASSES]>,
}
