//! Private files for a namespace's programs: `/etc/hosts`, `/sys`, host name, and directories in memory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::sethostname;

/// Directory used briefly as mount point; its own content reappears after the unmount.
const FOR_A_MOMENT: &str = "/run";

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

pub(super) fn own_directories(places: &[&str], files: &[(PathBuf, String)]) -> io::Result<()> {
    own_mounts(CloneFlags::empty())?;
    places.iter().filter(|place| Path::new(place).exists()).try_for_each(|place| in_memory(place))?;
    files.iter().try_for_each(|(path, text)| {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, text)
    })
}

fn own_mounts(beside: CloneFlags) -> io::Result<()> {
    let nothing: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS | beside)?;
    Ok(mount(nothing, "/", nothing, MsFlags::MS_SLAVE | MsFlags::MS_REC, nothing)?)
}

fn in_memory(place: &str) -> io::Result<()> {
    let options = Some("size=4m,mode=755");
    Ok(mount(Some("xoff-lab"), place, Some("tmpfs"), MsFlags::empty(), options)?)
}
