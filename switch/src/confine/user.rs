use std::io;

use rustix::process::{Gid, Uid};
use rustix::thread;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: String,
    uid: u32,
    gid: u32,
}

#[derive(Debug, thiserror::Error)]
pub enum UserError {
    #[error(
        "user = {name:?}: there is no such user on this machine; create the user with `useradd --system {name}`, or leave \
         `user` out to keep the user that starts the switch"
    )]
    Unknown { name: String },
    #[error("user = {name:?}: the look-up of this user failed: {error}")]
    Unread { name: String, error: nix::errno::Errno },
    #[error(
        "cannot become user {name} ({error}); start xoff as root, or leave `user` out if a service manager sets the user"
    )]
    Refused { name: String, error: io::Error },
}

impl User {
    pub fn named(name: &str) -> Result<User, UserError> {
        let name = name.to_owned();
        match nix::unistd::User::from_name(&name) {
            Ok(Some(user)) => Ok(User { name, uid: user.uid.as_raw(), gid: user.gid.as_raw() }),
            Ok(None) => Err(UserError::Unknown { name }),
            Err(error) => Err(UserError::Unread { name, error }),
        }
    }

    fn is_here(&self) -> bool {
        let (ours, groups) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        (ours, groups) == (self.uid, self.gid)
    }
}

/// Changes the user of the calling thread only, and removes supplementary groups. Capabilities stay permitted, but not effective.
pub(super) fn become_user(user: Option<&User>) -> Result<(), UserError> {
    let Some(user) = user.filter(|user| !user.is_here()) else { return Ok(()) };
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    let change = || {
        thread::set_keep_capabilities(true)?;
        thread::set_thread_groups(&[])?;
        thread::set_thread_res_gid(gid, gid, gid)?;
        thread::set_thread_res_uid(uid, uid, uid)?;
        thread::set_keep_capabilities(false)
    };
    change().map_err(|error| UserError::Refused { name: user.name.clone(), error: error.into() })
}
