//! Files that only the programs of one namespace see: `/etc/hosts`, and a `/sys` that tells of the devices there; and a host name.
//! And directories that they alone have, with what they are to read there and whatever they write.
//!
//! The thread that lives in a namespace gets a mount namespace of its own. `/etc/hosts` is a file of a file system in memory that is
//! mounted for a moment and then is nowhere but there, so nothing has to be written or cleaned up outside.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::sethostname;

/// Any directory: what is in it is there again afterwards.
const FOR_A_MOMENT: &str = "/run";

/// Gives the calling thread a mount namespace of its own with these files, and a host name.
pub(super) fn furnish(name: &str, hosts: &str) -> io::Result<()> {
    let nothing: Option<&str> = None;
    own_mounts(CloneFlags::CLONE_NEWUTS)?;
    sethostname(name)?;
    in_memory(FOR_A_MOMENT)?;
    let file = Path::new(FOR_A_MOMENT).join("hosts");
    let bound = fs::write(&file, hosts)
        .and_then(|()| Ok(mount(Some(&file), "/etc/hosts", nothing, MsFlags::MS_BIND, nothing)?));
    umount2(FOR_A_MOMENT, MntFlags::MNT_DETACH)?;
    bound?;
    mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), nothing)?;
    Ok(())
}

/// Gives the calling thread directories of its own in place of those of these that there are, in memory, and in them these files.
pub(super) fn own_directories(places: &[&str], files: &[(PathBuf, String)]) -> io::Result<()> {
    own_mounts(CloneFlags::empty())?;
    places.iter().filter(|place| Path::new(place).exists()).try_for_each(|place| in_memory(place))?;
    files.iter().try_for_each(|(path, text)| {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, text)
    })
}

/// What is mounted here from now on stays here; what is mounted outside comes here.
fn own_mounts(beside: CloneFlags) -> io::Result<()> {
    let nothing: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS | beside)?;
    Ok(mount(nothing, "/", nothing, MsFlags::MS_SLAVE | MsFlags::MS_REC, nothing)?)
}

fn in_memory(place: &str) -> io::Result<()> {
    let options = Some("size=4m,mode=755");
    Ok(mount(Some("xoff-lab"), place, Some("tmpfs"), MsFlags::empty(), options)?)
}
