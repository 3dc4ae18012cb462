//! The forwarding database for people, in pages: by VLAN and address, each address once.
//!
//! A table may hold a million addresses, and nobody shall wait for them: a worker is asked for a bounded
//! part of its table at a time, a page takes as many questions as the table has parts, and carries
//! a bounded number of addresses. Pages are in the order of the addresses, not of the table: so a walk
//! meets every address once whatever is learned meanwhile, and tells nobody which addresses are
//! neighbours in the table, which would help to crowd somebody out of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout};
use xoff_dataplane::units::MacAddr;

use super::groups;
use super::mailbox::{Address, AddressKey, Answer};
use super::view::SwitchView;

/// Addresses of a page where nothing else is asked for.
const PAGE: usize = 1_000;
/// Most of them.
const PAGE_MAX: usize = 10_000;
/// How a page is asked for.
const EXAMPLE: &str = "/addresses?after=1-02:00:00:00:00:01&limit=100";
/// How long one worker has for one part of its table, and all of them for a page.
const PART_WITHIN: Duration = Duration::from_secs(1);
const PAGE_WITHIN: Duration = Duration::from_secs(3);

/// What `GET /addresses` answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressPage {
    /// Addresses and where they are, by VLAN and address.
    pub addresses: Vec<FdbEntry>,
    /// What `after` has to be for the next page; `None`: this was the last one.
    pub next: Option<String>,
    /// How many there are in all; where this is not all of them, as of the last second, and with those that
    /// have aged and are not swept out yet.
    pub total: u64,
}

/// An address and where it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct FdbEntry {
    /// VLAN.
    pub vid: u16,
    /// The address.
    pub mac: String,
    /// Name of the port; of a group's first one where the address is at a group.
    pub port: String,
    /// Name of the group.
    #[serde(default)]
    pub group: Option<String>,
    /// From the configuration; else learned.
    #[serde(rename = "static")]
    pub fixed: bool,
}

/// What it is asked with.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    after: Option<String>,
    limit: Option<String>,
}

pub(super) async fn get(
    State(view): State<Arc<SwitchView>>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Json<AddressPage>, (StatusCode, String)> {
    let Query(query) = query.map_err(|_| {
        bad(format!("a page is asked for with `after` and `limit`, each once at most: {EXAMPLE}"))
    })?;
    let limit = limit("limit", query.limit.as_deref(), 1)?;
    let after = query.after.map(|text| {
        let wrong = || bad(format!("`after` is {text:?}, but has to be what `next` of a page was"));
        read_key(&text).ok_or_else(wrong)
    });
    let silent = |why: String| (StatusCode::SERVICE_UNAVAILABLE, why + "\n");
    page(&view, after.transpose()?, limit).await.map(Json).map_err(silent)
}

fn bad(message: String) -> (StatusCode, String) {
    (StatusCode::BAD_REQUEST, message + "\n")
}

/// How many addresses are asked for by `text` as `name`: as many as a page has, where it is not given.
///
/// # Errors
/// What is allowed.
pub(super) fn limit(name: &str, text: Option<&str>, least: usize) -> Result<usize, (StatusCode, String)> {
    let Some(text) = text else { return Ok(PAGE) };
    let limit = text.parse().ok().filter(|limit| (least..=PAGE_MAX).contains(limit));
    limit.ok_or_else(|| {
        bad(format!("`{name}` is {text:?}, but has to be a whole number from {least} to {PAGE_MAX}"))
    })
}

/// The first `limit` addresses after that one.
///
/// # Errors
/// Which worker does not answer.
pub(super) async fn page(
    view: &SwitchView,
    after: Option<AddressKey>,
    limit: usize,
) -> Result<AddressPage, String> {
    let gathered = timeout(PAGE_WITHIN, gather(view, after, limit)).await;
    let mut found = gathered.unwrap_or_else(|_| Err("the workers take too long to answer".into()))?;
    let is_last = found.len() <= limit;
    if !is_last {
        found.pop_last();
    }
    let total = if is_last && after.is_none() { found.len() as u64 } else { known(view) };
    let next = found.last_key_value().filter(|_| !is_last).map(|(key, _)| write_key(*key));
    let name = |address: Address| FdbEntry {
        vid: address.vid,
        mac: address.mac.to_string(),
        port: view.name_of(address.port).to_owned(),
        group: groups::name_at(view, address.port),
        fixed: address.fixed,
    };
    Ok(AddressPage { addresses: found.into_values().map(name).collect(), next, total })
}

/// One more than `limit`, where there are as many.
async fn gather(
    view: &SwitchView,
    after: Option<AddressKey>,
    limit: usize,
) -> Result<BTreeMap<AddressKey, Address>, String> {
    let mut found = BTreeMap::new();
    for (number, worker) in view.workers.iter().enumerate() {
        let mut from = Some(0);
        while let Some(place) = from {
            let last = found.last_key_value().filter(|_| found.len() > limit).map(|(key, _)| *key);
            let part =
                match worker.mailbox.addresses(place, (after, last), Instant::now() + PART_WITHIN).await {
                    Answer::Given(part) => part,
                    Answer::Silent => return Err(format!("worker {number} does not answer")),
                    Answer::Ended => return Err(format!("worker {number} has ended")),
                };
            for address in part.addresses {
                // The others have it from the worker of its port.
                if view.ports[address.port.index()].worker == number {
                    found.insert(address.key(), address);
                } else {
                    found.entry(address.key()).or_insert(address);
                }
            }
            while found.len() > limit + 1 {
                found.pop_last();
            }
            from = part.next;
        }
    }
    Ok(found)
}

/// How many addresses there are.
pub(super) fn known(view: &SwitchView) -> u64 {
    let learned: u64 = view.ports().map(|(port, _)| view.counters.port(port).fdb_entries.get()).sum();
    learned + view.settings().fdb.statics.len() as u64
}

fn write_key((vid, mac): AddressKey) -> String {
    format!("{vid}-{mac}")
}

fn read_key(text: &str) -> Option<AddressKey> {
    let (vid, mac) = text.split_once('-')?;
    Some((vid.parse().ok()?, MacAddr::parse(mac)?))
}
