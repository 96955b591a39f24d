//! Calls that wait for a person: what waits, and the owner's answers.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use wharfinger::approvals::{
    Approval, ApprovalId, Caller, DecideError, Decision, Reason, Scope, Stage,
};
use wharfinger::{Decider, DecisionError};

use super::problem::{Body, Path};
use super::{ApiError, uninterrupted};
use crate::serve::Daemon;

/// A call that waits for a person, or that one has allowed and whose result was not collected yet.
#[derive(Serialize, ToSchema)]
pub(crate) struct ApprovalBody {
    /// `task_` and 12 characters.
    id: String,
    /// Who calls.
    agent: String,
    /// In which session.
    session: String,
    /// Whom.
    server: String,
    /// What, as its server names it.
    tool: String,
    /// What, as the agent names it.
    name: String,
    /// What kind of reason there is to ask.
    reason: Reason,
    /// The reason in words.
    why: String,
    /// What the model says about the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    said: Option<String>,
    /// With known secrets taken out.
    #[schema(value_type = Object)]
    arguments: Box<RawValue>,
    /// Milliseconds since 1970, UTC.
    created: u64,
    /// Until when it may be answered.
    expires: u64,
    /// How far it is.
    stage: Stage,
    /// Whether whoever called still waits.
    caller: Caller,
}

impl From<Approval> for ApprovalBody {
    fn from(approval: Approval) -> Self {
        let bound = approval.binding;
        Self {
            id: approval.id.to_string(),
            agent: bound.agent.to_string(),
            session: bound.session.to_string(),
            server: bound.server.to_string(),
            tool: bound.tool,
            name: bound.exposed,
            reason: approval.reason,
            why: approval.why,
            said: approval.said,
            arguments: (*approval.arguments).to_owned(),
            created: approval.created,
            expires: approval.expires,
            stage: approval.stage,
            caller: approval.caller,
        }
    }
}

/// All of them.
#[derive(Serialize, ToSchema)]
pub(crate) struct ApprovalList {
    /// The oldest first.
    approvals: Vec<ApprovalBody>,
}

/// Calls that wait for a person, and allowed ones whose result was not collected yet.
#[utoipa::path(get, path = "/api/approvals", responses((status = 200, body = ApprovalList)))]
pub(crate) async fn list(State(daemon): State<Arc<Daemon>>) -> Json<ApprovalList> {
    let approvals = daemon.wharf.approvals().into_iter();
    Json(ApprovalList {
        approvals: approvals.map(ApprovalBody::from).collect(),
    })
}

/// One of them.
#[utoipa::path(get, path = "/api/approvals/{id}", params(("id" = String, Path)),
    responses((status = 200, body = ApprovalBody), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(crate) async fn show(
    State(daemon): State<Arc<Daemon>>,
    Path(id): Path<String>,
) -> Result<Json<ApprovalBody>, ApiError> {
    Ok(Json(find(&daemon, None, &id).await?.into()))
}

/// What is done about a call that waits.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    /// It is made.
    Approve,
    /// It is not made.
    Deny,
}

/// An owner's answer.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Answer {
    /// Yes or no.
    action: Action,
    /// What the model is told with a no.
    reason: Option<String>,
    /// Other arguments than those that were asked about, an object.
    #[schema(value_type = Option<Object>)]
    modified_args: Option<Box<RawValue>>,
    /// For how much a yes is good; `once` unless given.
    scope: Option<Scope>,
}

/// Answers a call that waits. Of several answers the first counts.
#[utoipa::path(post, path = "/api/approvals/{id}", params(("id" = String, Path)), request_body = Answer,
    responses((status = 200, body = ApprovalBody), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 422, body = ApiError)))]
pub(crate) async fn answer(
    State(daemon): State<Arc<Daemon>>,
    Path(id): Path<String>,
    Body(answer): Body<Answer>,
) -> Result<Json<ApprovalBody>, ApiError> {
    let known = find(&daemon, None, &id).await?;
    let given = (answer.reason, answer.modified_args);
    let decision = decision(answer.action, given, answer.scope);
    decide(&daemon, known.id, decision).await
}

/// An answer as other programs for agents give it.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resolution {
    /// `approve`, `deny`, or `pending_approval`, which leaves it waiting.
    #[schema(value_type = String)]
    #[serde(default)]
    action: Value,
    /// What the model is told with a no.
    reason: Option<String>,
    /// Other arguments than those that were asked about, an object.
    #[schema(value_type = Option<Object>)]
    modified_args: Option<Box<RawValue>>,
}

/// The same, by the path and the words that other programs for agents know.
#[utoipa::path(post, path = "/api/agents/{agent}/tasks/{id}/resolve",
    params(("agent" = String, Path), ("id" = String, Path)), request_body = Resolution,
    responses((status = 200, body = ApprovalBody), (status = 400, body = ApiError), (status = 404, body = ApiError),
        (status = 409, body = ApiError), (status = 422, body = ApiError)))]
pub(crate) async fn resolve(
    State(daemon): State<Arc<Daemon>>,
    Path((agent, id)): Path<(String, String)>,
    Body(wanted): Body<Resolution>,
) -> Result<Json<ApprovalBody>, ApiError> {
    let action = match wanted.action.as_str() {
        Some("approve") => Some(Action::Approve),
        Some("deny") => Some(Action::Deny),
        Some("pending_approval") => None,
        _ => {
            let error = ApiError::new(StatusCode::BAD_REQUEST, "the call can't be resolved");
            let told = format!(
                "must be `approve`, `deny` or `pending_approval`, not {}",
                wanted.action
            );
            return Err(error.with_field("action".into(), told));
        }
    };
    let agent = daemon.wharf.agent(&agent)?;
    let known = find(&daemon, Some(agent.as_str()), &id).await?;
    if known.stage != Stage::PendingApproval {
        return Err(DecisionError::from(DecideError::Decided(known.id)).into());
    }
    let Some(action) = action else {
        return Ok(Json(known.into()));
    };
    let decision = decision(action, (wanted.reason, wanted.modified_args), None);
    decide(&daemon, known.id, decision).await
}

fn decision(
    action: Action,
    (reason, arguments): (Option<String>, Option<Box<RawValue>>),
    scope: Option<Scope>,
) -> Decision {
    match action {
        Action::Approve => Decision::Approve {
            arguments: arguments.map(Arc::from),
            scope: scope.unwrap_or_default(),
        },
        Action::Deny => Decision::Deny { reason },
    }
}

/// An open one; says of one that is over what became of it.
async fn find(daemon: &Daemon, agent: Option<&str>, id: &str) -> Result<Approval, ApiError> {
    let of_agent = |name: &str| agent.is_none_or(|agent| agent == name);
    let open =
        daemon.wharf.approvals().into_iter().find(|approval| {
            approval.id.as_str() == id && of_agent(approval.binding.agent.as_str())
        });
    if let Some(open) = open {
        return Ok(open);
    }
    let id = ApprovalId::new(id);
    match daemon.wharf.asked_before(&id).await {
        Some((agent, status)) if of_agent(agent.as_str()) => Err(ApiError::conflict(format!(
            "the approval `{id}` is not pending: it is {status}"
        ))),
        _ => Err(DecisionError::from(DecideError::Unknown(id)).into()),
    }
}

async fn decide(
    daemon: &Arc<Daemon>,
    id: ApprovalId,
    decision: Decision,
) -> Result<Json<ApprovalBody>, ApiError> {
    let deciding = daemon.clone();
    uninterrupted(daemon, async move {
        let decided = deciding.wharf.decide(&id, decision, Decider::Owner).await?;
        Ok(Json(decided.into()))
    })
    .await
}

impl From<DecisionError> for ApiError {
    fn from(error: DecisionError) -> Self {
        match &error {
            DecisionError::Book(DecideError::Unknown(_)) => {
                Self::unknown(error.to_string()).with_hint("`wharf approvals` lists what waits")
            }
            DecisionError::Book(DecideError::Decided(_)) | DecisionError::Scope { .. } => {
                Self::conflict(error.to_string())
            }
            DecisionError::Arguments(why) => Self::invalid("the call can't be approved")
                .with_field("modifiedArgs".into(), why.clone()),
            DecisionError::File(_) => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
            }
        }
    }
}
