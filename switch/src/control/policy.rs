//! `/policy`: shows the flow-control policy of each class. `PUT`, from this machine only ([`super::trust`]), replaces policies.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{self, FromRequest as _, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::timeout;
use xoff_config::no_own_policy;
use xoff_dataplane::switch::PolicySwap;
use xoff_flow_control::settings::{PolicyKind, PolicySettings};
use xoff_wire::units::Class;

use super::caller::Caller;
use super::mailbox::Request;
use super::policy_cells::PolicyNames;
use super::trust::Names;
use super::{SwitchView, trust};

pub(super) const BODY_MAX: usize = 1024;
const BODY_WITHIN: Duration = Duration::from_secs(2);

const EXAMPLE: &str = "send for example {\"policy\": \"capfc-stop-max\", \"class\": 3}; `class` is 0 to 7; \
    without `class`, the policy applies to all classes";

const TAKEN_WITHIN: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyChange {
    pub policy: String,
    #[serde(default)]
    pub class: Option<u8>,
}

pub(super) async fn get(State(view): State<Arc<SwitchView>>) -> Json<PolicyNames> {
    Json(view.policies.names())
}

pub(super) async fn put(
    State(view): State<Arc<SwitchView>>,
    Extension(caller): Extension<Caller>,
    Extension(names): Extension<Arc<Names>>,
    request: extract::Request,
) -> Result<Json<PolicyNames>, (StatusCode, String)> {
    let bad = |message: String| (StatusCode::BAD_REQUEST, message + "\n");
    let host = trust::host(request.headers()).map_err(|why| bad(why.into()))?;
    names.may(caller, host, "change a policy").map_err(|why| (StatusCode::FORBIDDEN, why + "\n"))?;
    let body = read(request, EXAMPLE).await?;
    let change: PolicyChange = serde_json::from_slice(&body).map_err(|error| {
        let found = match error.is_data() {
            true => "the request must have the key `policy` (a name), and may have `class`".into(),
            false => error.to_string(),
        };
        bad(format!("{found}; {EXAMPLE}"))
    })?;
    let policies = &view.settings().policy;
    let kind = policies.named(&change.policy).ok_or_else(|| bad(unknown(&change.policy, policies)))?;
    let class = change.class.map(|class| {
        Class::new(class).ok_or_else(|| bad(format!("there is no class {class}; classes are 0 to 7")))
    });
    let classes = class.transpose()?.map_or(Class::ALL.to_vec(), |class| vec![class]);
    if kind.needs_one_worker(policies.custom.as_ref()) && view.workers.len() > 1 {
        let workers = view.workers.len();
        let message = format!("policy {} needs one worker, this switch has {workers}\n", kind.name());
        return Err((StatusCode::CONFLICT, message));
    }
    for &class in &classes {
        if let Some(needed) = kind.misfit(class, &view.settings()) {
            let message = format!("policy {} needs {needed} in class {class}\n", kind.name());
            return Err((StatusCode::CONFLICT, message));
        }
    }
    // Replace in a separate task, which completes the change even if the client aborts the request.
    let changed = tokio::spawn(async move { replace(&view, &classes, kind).await }).await;
    let failed =
        |error| (StatusCode::INTERNAL_SERVER_ERROR, format!("the policy was not changed: {error}\n"));
    changed.map_err(failed)?.map(Json)
}

pub(super) async fn read(request: extract::Request, example: &str) -> Result<Bytes, (StatusCode, String)> {
    match timeout(BODY_WITHIN, Bytes::from_request(request, &())).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(refused)) if refused.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            Err((refused.status(), format!("the request has more than {BODY_MAX} bytes; {example}\n")))
        }
        Ok(Err(refused)) => Err((refused.status(), format!("the request was cut off; {example}\n"))),
        Err(_) => {
            let message =
                format!("the request did not arrive completely within {} s\n", BODY_WITHIN.as_secs());
            Err((StatusCode::REQUEST_TIMEOUT, message))
        }
    }
}

pub(super) async fn replace(
    view: &SwitchView,
    classes: &[Class],
    kind: PolicyKind,
) -> Result<PolicyNames, (StatusCode, String)> {
    let _alone = view.policies.changing.lock().await;
    for &class in classes {
        set(view, class, kind).await?;
    }
    Ok(view.policies.names())
}

#[must_use]
pub fn unknown(name: &str, policies: &PolicySettings) -> String {
    let valid: Vec<&str> = policies.kinds().map(PolicyKind::name).collect();
    let why = if name == PolicyKind::Custom.name() {
        no_own_policy()
    } else {
        format!("there is no policy {name:?}")
    };
    format!("{why}; policies are {}", valid.join(", "))
}

async fn set(view: &SwitchView, class: Class, kind: PolicyKind) -> Result<(), (StatusCode, String)> {
    let failed = |message: String| (StatusCode::SERVICE_UNAVAILABLE, message + "\n");
    for (number, worker) in view.workers.iter().enumerate() {
        let (done, taken) = oneshot::channel();
        let swap = Box::new(PolicySwap::new(kind, class, &view.settings()));
        let sent = worker.mailbox.send(Request::SetPolicy { swap, done });
        sent.map_err(|_| failed(format!("worker {number} has ended")))?;
        match timeout(TAKEN_WITHIN, taken).await {
            Ok(Ok(left)) => drop(left),
            Ok(Err(_)) => return Err(failed(format!("worker {number} has ended"))),
            Err(_) => {
                return Err(failed(format!(
                    "worker {number} does not answer, but may still change the policy"
                )));
            }
        }
    }
    let before = view.policies.get(class);
    view.policies.set(class, kind);
    // Log only a change. An unchanged policy was sent, too: an earlier change may not have reached all workers.
    if kind != before {
        tracing::info!("policy of class {class} changed: {} instead of {}", kind.name(), before.name());
    }
    Ok(())
}
