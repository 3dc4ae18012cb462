//! Why no program could be attached.

/// Why no program could be attached.
#[derive(Debug, thiserror::Error)]
pub enum EbpfError {
    /// The interface runs a program that is not ours.
    #[error(
        "{device} already runs XDP program \"{name}\" (id {id}), which is not xoff's; \
         take it off with `ip link set dev {device} xdp off` or choose another interface"
    )]
    Stranger {
        /// The interface.
        device: String,
        /// The program's name.
        name: String,
        /// The program's id.
        id: u32,
    },
    /// The interface runs a program of which nobody without the capability may know whose it is.
    #[error(
        "{device} already runs an XDP program (id {id}); to see whether it is one that a killed xoff left \
         takes cap_sys_admin. Run xoff as root, or take the program off with `ip link set dev {device} xdp off`"
    )]
    Unknown {
        /// The interface.
        device: String,
        /// The program's id.
        id: u32,
    },
    /// Another xoff has the interface, and its process is alive.
    #[error("{}", held(device, *process))]
    AnotherXoff {
        /// The interface.
        device: String,
        /// Its process; `None` where this one may not see it.
        process: Option<u32>,
    },
    /// It cannot be said that the interface is taken.
    #[error(
        "cannot claim {device} in {directory}: {source}. Only who runs xoff may enter that directory: \
         `install -d -m 700 -o USER {directory}` makes it for a user that is not root"
    )]
    Unclaimed {
        /// The interface.
        device: String,
        /// Where that is said.
        directory: &'static str,
        /// The system's words.
        source: std::io::Error,
    },
    /// The driver has no native XDP, or not for the interface as it is set up.
    #[error("{device} cannot run XDP natively: {source:#}; use mode \"auto\" or \"generic\"")]
    NotNative {
        /// The interface.
        device: String,
        /// The kernel's words.
        source: libbpf_rs::Error,
    },
    /// The kernel does not take the program.
    #[error("cannot load the XDP program for {device}: {source:#}; it needs Linux 5.18 or newer")]
    NotLoaded {
        /// The interface.
        device: String,
        /// The kernel's words.
        source: libbpf_rs::Error,
    },
    /// The kernel refused.
    #[error("cannot {doing} for {device}: {source:#}")]
    Refused {
        /// What was tried.
        doing: &'static str,
        /// The interface.
        device: String,
        /// The kernel's words.
        source: libbpf_rs::Error,
    },
}

/// Who has the interface, and what to do about it.
fn held(device: &str, process: Option<u32>) -> String {
    match process {
        Some(id) if id == std::process::id() => format!(
            "{device} is a port of this xoff already, by this name or another one (`ip link show dev {device}` lists them); give each \
             port a device of its own"
        ),
        Some(id) => format!("another xoff (process {id}) runs on {device}; stop it first"),
        None => format!("another xoff runs on {device}; stop it first"),
    }
}
