use std::sync::Arc;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};

use super::super::caller::Caller;
use super::super::trust::{self, Names};
use super::{NotReloaded, Reloaded, Reloads};
use crate::control::policy::read;

const EXAMPLE: &str = "send {} or {\"dry_run\": true}";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReloadRequest {
    #[serde(default)]
    pub dry_run: bool,
}

pub(in super::super) async fn put(
    Extension(caller): Extension<Caller>,
    Extension(names): Extension<Arc<Names>>,
    Extension(reloads): Extension<Option<Reloads>>,
    request: Request,
) -> Result<Json<Reloaded>, (StatusCode, String)> {
    let refused = |code, message: String| (code, message + "\n");
    let host = trust::host(request.headers()).map_err(|why| refused(StatusCode::BAD_REQUEST, why.into()))?;
    let may = names.may(caller, host, "reload the configuration");
    may.map_err(|why| refused(StatusCode::FORBIDDEN, why))?;
    let body = read(request, EXAMPLE).await?;
    let ReloadRequest { dry_run } = match body.is_empty() {
        true => ReloadRequest::default(),
        false => serde_json::from_slice(&body)
            .map_err(|error| refused(StatusCode::BAD_REQUEST, format!("{error}; {EXAMPLE}")))?,
    };
    let outcome = match reloads {
        Some(reloads) => reloads.ask(dry_run).await.unwrap_or(Err(NotReloaded::Ended)),
        None => Err(NotReloaded::NoFile),
    };
    outcome.map(Json).map_err(|error| {
        let code = match error {
            NotReloaded::NoFile | NotReloaded::Restart(_) | NotReloaded::NotAdded { .. } => {
                StatusCode::CONFLICT
            }
            NotReloaded::Unread(_) | NotReloaded::Invalid { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            NotReloaded::Unanswered(_)
            | NotReloaded::Busy(_)
            | NotReloaded::Unreadable(_)
            | NotReloaded::Silent(_)
            | NotReloaded::Ended => StatusCode::SERVICE_UNAVAILABLE,
        };
        refused(code, error.to_string())
    })
}
