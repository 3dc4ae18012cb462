//! Files that only the programs of one namespace see: `/etc/hosts`, and a `/sys` that tells of the devices there; and a host name.
//!
//! The thread that lives in a namespace gets a mount namespace of its own. `/etc/hosts` is a file of a file system in memory that is
//! mounted for a moment and then is nowhere but there, so nothing has to be written or cleaned up outside.

use std::fs;
use std::io;
use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::sethostname;

/// Any directory: what is in it is there again afterwards.
const FOR_A_MOMENT: &str = "/run";

/// Gives the calling thread a mount namespace of its own with these files, and a host name.
pub(super) fn furnish(name: &str, hosts: &str) -> io::Result<()> {
    let nothing: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS)?;
    sethostname(name)?;
    // What is mounted here stays here; what is mounted outside comes here.
    mount(nothing, "/", nothing, MsFlags::MS_SLAVE | MsFlags::MS_REC, nothing)?;
    mount(Some("xoff-lab"), FOR_A_MOMENT, Some("tmpfs"), MsFlags::empty(), Some("size=4m,mode=755"))?;
    let file = Path::new(FOR_A_MOMENT).join("hosts");
    let bound = fs::write(&file, hosts)
        .and_then(|()| Ok(mount(Some(&file), "/etc/hosts", nothing, MsFlags::MS_BIND, nothing)?));
    umount2(FOR_A_MOMENT, MntFlags::MNT_DETACH)?;
    bound?;
    mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), nothing)?;
    Ok(())
}
