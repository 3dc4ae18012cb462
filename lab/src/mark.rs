//! Marks that devices carry with them, for who finds these later: a text, which ends with its device.

use futures::TryStreamExt;
use rtnetlink::LinkUnspec;
use rtnetlink::packet_route::link::LinkAttribute;

use super::netlink::netlink;
use super::{LabError, Namespace};

/// Marks a device of a namespace: the namespace itself, where that is its loopback device.
///
/// # Errors
/// Where the kernel refuses it.
pub fn set_mark(namespace: &Namespace, device: &str, mark: &str) -> Result<(), LabError> {
    let alias = LinkAttribute::IfAlias(mark.to_owned());
    let link = LinkUnspec::new_with_name(device).append_extra_attribute(alias).build();
    netlink(namespace, &format!("mark {device}"), async |handle| handle.link().set(link).execute().await)
}

/// The devices of a namespace that have a mark, by name, each with its own.
///
/// # Errors
/// Where the kernel refuses to say.
pub fn marks(namespace: &Namespace) -> Result<Vec<(String, String)>, LabError> {
    let links = netlink(namespace, "list devices", async |handle| {
        handle.link().get().execute().try_collect::<Vec<_>>().await
    })?;
    let marked = links.into_iter().filter_map(|link| {
        let (mut device, mut mark) = (None, None);
        for attribute in link.attributes {
            match attribute {
                LinkAttribute::IfName(name) => device = Some(name),
                LinkAttribute::IfAlias(alias) => mark = Some(alias),
                _ => {}
            }
        }
        device.zip(mark)
    });
    Ok(marked.collect())
}
