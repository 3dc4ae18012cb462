//! `PUT /acknowledge`, from this machine only ([`super::trust`]): hides past gaps in the proof that the switch
//! lost no frame. Gaps that still last, and losses, remain shown.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};

use super::caller::Caller;
use super::trust::{self, Names};
use super::{SwitchView, proof};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcknowledgedNow {
    pub acknowledged: Vec<String>,
    pub unproved: Vec<String>,
}

pub(super) async fn put(
    State(view): State<Arc<SwitchView>>,
    Extension(caller): Extension<Caller>,
    Extension(names): Extension<Arc<Names>>,
    headers: HeaderMap,
) -> Result<Json<AcknowledgedNow>, (StatusCode, String)> {
    let host = trust::host(&headers).map_err(|why| (StatusCode::BAD_REQUEST, format!("{why}\n")))?;
    let may = names.may(caller, host, "acknowledge gaps in the proof that lossless classes lost no frame");
    may.map_err(|why| (StatusCode::FORBIDDEN, why + "\n"))?;
    let acknowledged = proof::acknowledge(&view);
    for gap in &acknowledged {
        tracing::info!(
            event = "acknowledged",
            "a gap in the proof that lossless classes lost no frame is acknowledged, and no longer counts: {gap}"
        );
    }
    let gaps = proof::gaps(&view, &view.unseen());
    Ok(Json(AcknowledgedNow { acknowledged, unproved: proof::with_names(&view, &gaps).collect() }))
}
