//! `/addresses`: the forwarding database, in pages sorted by VLAN and address.
//!
//! Sorted pages let a client read all addresses while the table changes, and hide the order of the hash table from attackers.

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
use xoff_wire::units::MacAddr;

use super::groups;
use super::mailbox::{Address, AddressKey, Answer};
use super::view::SwitchView;

const PAGE: usize = 1_000;
const PAGE_MAX: usize = 10_000;
const EXAMPLE: &str = "/addresses?after=1-02:00:00:00:00:01&limit=100";
const PART_WITHIN: Duration = Duration::from_secs(1);
const PAGE_WITHIN: Duration = Duration::from_secs(3);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressPage {
    pub addresses: Vec<FdbEntry>,
    /// Value of parameter `after` in the request for the next page; `None` on the last page.
    pub next: Option<String>,
    /// Number of all addresses in the forwarding database; may be one second old.
    pub total: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct FdbEntry {
    /// VLAN of the address.
    pub vid: u16,
    /// MAC address.
    pub mac: String,
    /// Name of the port that leads to the address; for a group of ports (LAG), its first port.
    pub port: String,
    /// Name of the group of ports (LAG) that leads to the address; `None` for a single port.
    #[serde(default)]
    pub group: Option<String>,
    /// True for a configured address, false for a learned one.
    #[serde(rename = "static")]
    pub fixed: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AddressQuery {
    after: Option<String>,
    limit: Option<String>,
}

pub(super) async fn get(
    State(view): State<Arc<SwitchView>>,
    query: Result<Query<AddressQuery>, QueryRejection>,
) -> Result<Json<AddressPage>, (StatusCode, String)> {
    let Query(query) = query.map_err(|_| {
        bad(format!(
            "/addresses has only the parameters `after` and `limit`, each once at most; for example {EXAMPLE}"
        ))
    })?;
    let limit = limit("limit", query.limit.as_deref(), 1)?;
    let after = query.after.map(|text| {
        let wrong = || bad(format!("`after` is {text:?}, but has to be `next` of an earlier page"));
        read_key(&text).ok_or_else(wrong)
    });
    let silent = |why: String| (StatusCode::SERVICE_UNAVAILABLE, why + "\n");
    page(&view, after.transpose()?, limit).await.map(Json).map_err(silent)
}

fn bad(message: String) -> (StatusCode, String) {
    (StatusCode::BAD_REQUEST, message + "\n")
}

pub(super) fn limit(name: &str, text: Option<&str>, least: usize) -> Result<usize, (StatusCode, String)> {
    let Some(text) = text else { return Ok(PAGE) };
    let limit = text.parse().ok().filter(|limit| (least..=PAGE_MAX).contains(limit));
    limit.ok_or_else(|| {
        bad(format!("`{name}` is {text:?}, but has to be a whole number from {least} to {PAGE_MAX}"))
    })
}

pub(super) async fn page(
    view: &SwitchView,
    after: Option<AddressKey>,
    limit: usize,
) -> Result<AddressPage, String> {
    let gathered = timeout(PAGE_WITHIN, gather(view, after, limit)).await;
    let mut found =
        gathered.unwrap_or_else(|_| Err("the workers take too long to answer; try again".into()))?;
    let is_last = found.len() <= limit;
    if !is_last {
        found.pop_last();
    }
    let total = if is_last && after.is_none() { found.len() as u64 } else { address_count(view) };
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
                // Prefer the entry of the port's own worker, which learned the address; other workers have copies.
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

pub(super) fn address_count(view: &SwitchView) -> u64 {
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
