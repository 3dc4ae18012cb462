//! `/acknowledge`: an operator accepts past gaps in the proof of losslessness, by `PUT` from this machine
//! ([`super::trust`]). A vanished device took its last drop counters with it. Current gaps and real losses cannot be
//! acknowledged.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};

use super::caller::Caller;
use super::trust::{self, Names};
use super::{SwitchView, proof};

/// Answer to `PUT /acknowledge`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcknowledgedNow {
    /// Gaps acknowledged by this request.
    pub acknowledged: Vec<String>,
    /// Remaining gaps.
    pub unproved: Vec<String>,
}

pub(super) async fn put(
    State(view): State<Arc<SwitchView>>,
    Extension(caller): Extension<Caller>,
    Extension(names): Extension<Arc<Names>>,
    headers: HeaderMap,
) -> Result<Json<AcknowledgedNow>, (StatusCode, String)> {
    let host = trust::host(&headers).map_err(|why| (StatusCode::BAD_REQUEST, format!("{why}\n")))?;
    let may = names.may(caller, host, "acknowledge what is not proved");
    may.map_err(|why| (StatusCode::FORBIDDEN, why + "\n"))?;
    let acknowledged = proof::acknowledge(&view);
    for gap in &acknowledged {
        tracing::info!(event = "acknowledged", "somebody knows of it, and it counts no more: {gap}");
    }
    let gaps = proof::gaps(&view, &view.unseen());
    Ok(Json(AcknowledgedNow { acknowledged, unproved: proof::with_names(&view, &gaps).collect() }))
}
