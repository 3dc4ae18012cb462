mod interfaces;
mod messages;
pub(crate) mod mirror;
mod presence;
pub(crate) mod tables;
mod view;

pub(crate) use interfaces::{OpenedRouter, RouterError, open};
pub use mirror::Page;
pub use presence::Presence;
pub use tables::{Row, RowVia, table};
pub(crate) use view::{InterfaceCounts, InterfaceView, RouterView};
