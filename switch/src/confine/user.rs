//! Change of the user, thread by thread. The C library changes all threads at once, and ends the process if one may not.

use std::io;

use rustix::process::{Gid, Uid};
use rustix::thread;

/// User of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: String,
    uid: u32,
    gid: u32,
}

/// Error of changing the user.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// No such user.
    #[error(
        "user = {name:?}: there is no such user on this machine; `useradd --system {name}` makes one, and without `user` a \
         switch stays who started it"
    )]
    Unknown {
        /// User.
        name: String,
    },
    /// Failed look-up.
    #[error("user = {name:?}: this machine does not say who that is: {error}")]
    Unread {
        /// User.
        name: String,
        /// System's error.
        error: nix::errno::Errno,
    },
    /// Refused change.
    #[error(
        "cannot become user {name} ({error}); start xoff as root, or leave `user` out where a service manager sets it"
    )]
    Refused {
        /// User.
        name: String,
        /// System's error.
        error: io::Error,
    },
}

impl User {
    /// Looks up a user.
    ///
    /// # Errors
    /// No such user, or a failed look-up.
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

/// Changes the calling thread, without supplementary groups. Permitted capabilities stay, none effective.
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
