//! Conversations with the kernel about devices, each in the namespace that it is about.

use futures::TryStreamExt;
use rtnetlink::Handle;
use rtnetlink::packet_route::link::LinkMessage;
use tokio::runtime;

use super::{LabError, Namespace};

/// One conversation over rtnetlink, inside `namespace`.
pub(super) fn netlink<T: Send>(
    namespace: &Namespace,
    what: &str,
    talk: impl AsyncFnOnce(Handle) -> Result<T, rtnetlink::Error> + Send,
) -> Result<T, LabError> {
    let (what, place) = (what.to_owned(), namespace.name().to_owned());
    namespace.run(|| {
        let runtime = runtime::Builder::new_current_thread().enable_io().build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(source) => return Err(LabError::Io { what, namespace: place, source }),
        };
        runtime.block_on(async {
            match rtnetlink::new_connection() {
                Err(source) => Err(LabError::Io { what, namespace: place, source }),
                Ok((connection, handle, _)) => {
                    tokio::spawn(connection);
                    talk(handle).await.map_err(|source| LabError::Netlink { what, namespace: place, source })
                }
            }
        })
    })
}

pub(super) fn read_link(namespace: &Namespace, name: &str) -> Result<LinkMessage, LabError> {
    netlink(namespace, &format!("read device {name}"), async |handle| {
        let mut links = handle.link().get().match_name(name.to_owned()).execute();
        links.try_next().await?.ok_or(rtnetlink::Error::RequestFailed)
    })
}
