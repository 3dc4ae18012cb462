#[derive(Debug, thiserror::Error)]
pub enum EbpfError {
    #[error(
        "{device} already runs XDP program \"{name}\" (id {id}), which is not xoff's; \
         detach that program with `ip link set dev {device} xdp off` or choose another interface"
    )]
    Stranger { device: String, name: String, id: u32 },
    #[error(
        "{device} already runs an XDP program (id {id}), which a killed xoff may have left. \
         Run xoff as root (cap_sys_admin) to find out, or detach the program with `ip link set dev {device} xdp off`"
    )]
    Unknown { device: String, id: u32 },
    #[error("{}", held(device, *process))]
    AnotherXoff { device: String, process: Option<u32> },
    #[error(
        "cannot claim {device} in {directory}: {source}. Only the user of xoff may have access to that directory; \
         create it with `install -d -m 700 -o USER {directory}` for a user other than root"
    )]
    Unclaimed { device: String, directory: &'static str, source: std::io::Error },
    /// The driver, or its setup, cannot run XDP in native mode.
    #[error("{device} cannot run XDP natively: {source:#}; use mode \"auto\" or \"generic\"")]
    NotNative { device: String, source: libbpf_rs::Error },
    #[error("cannot load the XDP program for {device}: {source:#}; {}", load_remedy(source))]
    NotLoaded { device: String, source: libbpf_rs::Error },
    #[error("cannot {doing} for {device}: {source:#}")]
    Refused {
        /// Refused action: a verb phrase that follows "cannot".
        doing: &'static str,
        device: String,
        source: libbpf_rs::Error,
    },
}

/// Possible cause and remedy if the kernel refuses a system call although the capabilities suffice.
pub const FORBIDDEN: &str = "a filter of system calls (seccomp), or a user namespace (rootless container), forbids it; allow \
    `bpf` and sockets of the families AF_XDP, AF_PACKET and AF_NETLINK in the container's seccomp profile, and run the \
    container as root";

fn load_remedy(source: &libbpf_rs::Error) -> &'static str {
    const EPERM: i32 = 1;
    const ENOSYS: i32 = 38;
    match errno(source) {
        Some(EPERM | ENOSYS) => FORBIDDEN,
        _ => "it needs Linux 5.18 or newer",
    }
}

fn held(device: &str, process: Option<u32>) -> String {
    match process {
        Some(id) if id == std::process::id() => format!(
            "{device} is a port of this xoff already, perhaps by another name (`ip link show dev {device}` lists its names); give each \
             port a device of its own"
        ),
        Some(id) => format!("another xoff (process {id}) runs on {device}; stop it first"),
        None => format!("another xoff runs on {device}; stop it first"),
    }
}

/// Returns the error number of the failed system call. Parses the text, because libbpf-rs hides its `io::Error`.
pub(crate) fn errno(error: &libbpf_rs::Error) -> Option<i32> {
    let text = format!("{error:#}");
    text.rsplit_once("(os error ")?.1.strip_suffix(')')?.parse().ok()
}
