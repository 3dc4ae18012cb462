/// Error of attaching a program to an interface.
#[derive(Debug, thiserror::Error)]
pub enum EbpfError {
    /// The interface runs a foreign program.
    #[error(
        "{device} already runs XDP program \"{name}\" (id {id}), which is not xoff's; \
         take it off with `ip link set dev {device} xdp off` or choose another interface"
    )]
    Stranger {
        /// Interface.
        device: String,
        /// Program.
        name: String,
        /// Program's id.
        id: u32,
    },
    /// The program's owner cannot be identified without CAP_SYS_ADMIN.
    #[error(
        "{device} already runs an XDP program (id {id}); to see whether it is one that a killed xoff left \
         takes cap_sys_admin. Run xoff as root, or take the program off with `ip link set dev {device} xdp off`"
    )]
    Unknown {
        /// Interface.
        device: String,
        /// Program's id.
        id: u32,
    },
    /// Another living xoff process uses the interface.
    #[error("{}", held(device, *process))]
    AnotherXoff {
        /// Interface.
        device: String,
        /// Process id, if readable.
        process: Option<u32>,
    },
    /// The claim cannot be recorded.
    #[error(
        "cannot claim {device} in {directory}: {source}. Only who runs xoff may enter that directory: \
         `install -d -m 700 -o USER {directory}` makes it for a user that is not root"
    )]
    Unclaimed {
        /// Interface.
        device: String,
        /// Directory of claims.
        directory: &'static str,
        /// System's error.
        source: std::io::Error,
    },
    /// No native XDP in this driver or setup.
    #[error("{device} cannot run XDP natively: {source:#}; use mode \"auto\" or \"generic\"")]
    NotNative {
        /// Interface.
        device: String,
        /// Kernel's error.
        source: libbpf_rs::Error,
    },
    /// The kernel rejects the program.
    #[error("cannot load the XDP program for {device}: {source:#}; it needs Linux 5.18 or newer")]
    NotLoaded {
        /// Interface.
        device: String,
        /// Kernel's error.
        source: libbpf_rs::Error,
    },
    /// The kernel refused another action.
    #[error("cannot {doing} for {device}: {source:#}")]
    Refused {
        /// Phrase that names the action.
        doing: &'static str,
        /// Interface.
        device: String,
        /// Kernel's error.
        source: libbpf_rs::Error,
    },
}

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
