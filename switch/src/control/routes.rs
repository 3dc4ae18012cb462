use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use xoff_wire::units::Site;

use super::view::SwitchView;
use crate::router::mirror::Page;
use crate::router::tables::Row;
use crate::router::{InterfaceView, Presence, RouterView};

const PAGE: usize = 1_000;
const PAGE_MAX: usize = 10_000;
/// Maximum time to wait for the route mirror, which may be building a table.
const WITHIN: Duration = Duration::from_secs(3);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RouterStatus {
    /// Host interfaces (TAPs) of the router, for routed ports and for VLANs.
    pub interfaces: Vec<InterfaceStatus>,
    /// IPv4 prefixes in the workers' routing table, including host routes to neighbours.
    pub routes_v4: u64,
    /// IPv6 prefixes in the workers' routing table, including host routes to neighbours.
    pub routes_v6: u64,
    /// Number of times that the workers got a new routing table.
    pub tables: u64,
    /// Duration of the last change of the workers' routing table.
    pub table_nanos: u64,
    /// Number of times that all routes were read again because kernel messages were lost.
    pub resyncs: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceStatus {
    /// Name of the interface in the kernel.
    pub name: String,
    /// Name of the routed port; `None` for a VLAN's interface.
    pub port: Option<String>,
    /// VLAN of the interface; `None` for a routed port.
    pub vlan: Option<u16>,
    /// State: `up`, `down`, `gone` (from its network namespace), or `wide` (MTU above that of the port).
    pub state: Presence,
    /// Frames that the switch passed to the kernel through the interface.
    pub to_host: u64,
    /// Frames that the kernel refused because the interface is down.
    pub refused: u64,
    /// Frames that the kernel sent through the interface.
    pub from_host: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutePage {
    /// Routes of this page, sorted by table, prefix and metric.
    pub routes: Vec<Row>,
    /// Value of parameter `from` in the request for the next page; `None` on the last page.
    pub next: Option<usize>,
    pub total: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RouteQuery {
    #[serde(default)]
    from: usize,
    limit: Option<usize>,
}

pub(super) fn status(view: &SwitchView) -> Option<RouterStatus> {
    let RouterView { interfaces, mirrored, .. } = view.router.as_ref()?;
    let [v4, v6] = &mirrored.routes;
    let get = |number: &std::sync::atomic::AtomicU64| number.load(Ordering::Relaxed);
    Some(RouterStatus {
        interfaces: interfaces.iter().map(|interface| interface_status(view, interface)).collect(),
        routes_v4: get(v4),
        routes_v6: get(v6),
        tables: get(&mirrored.tables),
        table_nanos: get(&mirrored.took),
        resyncs: get(&mirrored.resyncs),
    })
}

fn interface_status(view: &SwitchView, interface_view: &InterfaceView) -> InterfaceStatus {
    let (port, vlan) = match interface_view.interface.site {
        Site::Port(port) => (Some(view.name_of(port).to_owned()), None),
        Site::Vlan(vid) => (None, Some(vid)),
    };
    InterfaceStatus {
        name: interface_view.interface.name.clone(),
        port,
        vlan,
        state: interface_view.presence(),
        to_host: interface_view.counts.to_host.get(),
        refused: interface_view.counts.refused.get(),
        from_host: interface_view.counts.from_host.get(),
    }
}

pub(super) async fn get(
    State(view): State<Arc<SwitchView>>,
    query: Result<Query<RouteQuery>, QueryRejection>,
) -> Result<Json<RoutePage>, (StatusCode, String)> {
    let wrong = || {
        let allowed = format!(
            "a page of routes has the parameters `from`, an index in the list, and `limit`, from 1 to {PAGE_MAX}: \
             /routes?from=1000&limit=100\n"
        );
        (StatusCode::BAD_REQUEST, allowed)
    };
    let Query(RouteQuery { from, limit }) = query.map_err(|_| wrong())?;
    let limit = limit.unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(wrong());
    }
    let none = (
        StatusCode::NOT_FOUND,
        "this switch has no router: no port is `routed`, and no VLAN has a router interface\n".into(),
    );
    let mirror = view.router.as_ref().map(|router| router.mirror.clone()).ok_or(none)?;
    let page = timeout(WITHIN, mirror.page(from, limit)).await.ok().flatten();
    let silent = || {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the thread that follows the kernel's routes does not answer\n".into(),
        )
    };
    let Page { rows: routes, total, .. } = page.ok_or_else(silent)?;
    let end = from.saturating_add(limit).min(total);
    Ok(Json(RoutePage { routes, next: (end < total).then_some(end), total }))
}
