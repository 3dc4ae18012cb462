use std::io;

use nix::errno::Errno;
use xoff_netlink::packet_route::link::LinkMessage;
use xoff_netlink::{Conversation, link_named};

use super::{LabError, Namespace};

pub(super) fn netlink<T, E: Into<io::Error>>(
    namespace: &Namespace,
    what: &str,
    talk: impl FnOnce(&mut Conversation) -> Result<T, E>,
) -> Result<T, LabError> {
    let kernel = namespace.try_run(Conversation::open);
    let result = kernel.and_then(|mut kernel| talk(&mut kernel).map_err(Into::into));
    result.map_err(|source| LabError::Io {
        what: what.to_owned(),
        namespace: namespace.name().to_owned(),
        source,
    })
}

pub(super) fn read_link(namespace: &Namespace, name: &str) -> Result<LinkMessage, LabError> {
    netlink(namespace, &format!("read device {name}"), |kernel| {
        kernel.link(link_named(name))?.ok_or_else(|| io::Error::from(Errno::ENODEV))
    })
}
