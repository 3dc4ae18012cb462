//! Marks on network devices, by which a lab finds leftovers of killed labs: alias texts, which disappear with the device.

use xoff_netlink::link_named;
use xoff_netlink::packet_route::link::LinkAttribute;

use super::netlink::netlink;
use super::{LabError, Namespace};

/// Makes `mark` the alias text of a device. To mark a namespace, mark its loopback device.
pub fn set_mark(namespace: &Namespace, device: &str, mark: &str) -> Result<(), LabError> {
    let mut link = link_named(device);
    link.attributes.push(LinkAttribute::IfAlias(mark.to_owned()));
    netlink(namespace, &format!("mark {device}"), |kernel| kernel.set_link(link))
}

pub fn marks(namespace: &Namespace) -> Result<Vec<(String, String)>, LabError> {
    let mut marked = Vec::new();
    netlink(namespace, "list devices", |kernel| {
        kernel.links(|link| {
            let (mut device, mut mark) = (None, None);
            for attribute in link.attributes {
                match attribute {
                    LinkAttribute::IfName(name) => device = Some(name),
                    LinkAttribute::IfAlias(alias) => mark = Some(alias),
                    _ => {}
                }
            }
            marked.extend(device.zip(mark));
        })
    })?;
    Ok(marked)
}
