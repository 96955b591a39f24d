//! Errors of the API: problem JSON (RFC 9457), with a map of fields where an entry is wrong.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;
use wharfinger::AgentError;
use wharfinger::config::EditError;

use crate::settings::SettingsError;

/// What went wrong with a request; nothing was changed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApiError {
    /// Always `about:blank`.
    r#type: &'static str,
    /// The HTTP status in words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What is wrong.
    detail: String,
    /// The way out, where one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// By the name of the field, what is wrong with it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    fields: BTreeMap<String, Vec<String>>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            r#type: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.into(),
            hint: None,
            fields: BTreeMap::new(),
        }
    }

    pub(crate) fn unknown(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn with_field(mut self, field: String, message: String) -> Self {
        self.fields.entry(field).or_default().push(message);
        self
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

impl From<AgentError> for ApiError {
    fn from(error: AgentError) -> Self {
        let status = match error {
            AgentError::Exists(_)
            | AgentError::Default
            | AgentError::Chat(_)
            | AgentError::Attached { .. }
            | AgentError::Unconfirmed { .. }
            | AgentError::Unusable { .. } => StatusCode::CONFLICT,
            AgentError::Unknown { .. } | AgentError::NoServer { .. } => StatusCode::NOT_FOUND,
            AgentError::Refused(_) | AgentError::File(_) => StatusCode::UNPROCESSABLE_ENTITY,
            AgentError::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

impl From<SettingsError> for ApiError {
    fn from(error: SettingsError) -> Self {
        let (status, hint) = match &error {
            SettingsError::Edit(EditError::Unknown(_)) => (StatusCode::NOT_FOUND, None),
            SettingsError::Edit(EditError::Syntax(_) | EditError::NotAnObject(_)) => (
                StatusCode::CONFLICT,
                Some("mend settings.json; `wharf config check` shows where"),
            ),
            SettingsError::Home(_) => (StatusCode::INTERNAL_SERVER_ERROR, None),
        };
        let problem = Self::new(status, error.to_string());
        match hint {
            Some(hint) => problem.with_hint(hint),
            None => problem,
        }
    }
}

/// A JSON body whose errors are problems too.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match Json::from_request(request, state).await {
            Ok(Json(body)) => Ok(Self(body)),
            Err(JsonRejection::JsonDataError(error)) => Err(ApiError::invalid(error.body_text())),
            Err(rejection) => Err(ApiError::new(rejection.status(), rejection.body_text())),
        }
    }
}

/// Query parameters whose errors are problems too.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = axum::extract::Query::from_request_parts(parts, state).await;
        read.map(|axum::extract::Query(query)| Self(query))
            .map_err(|rejection| ApiError::new(rejection.status(), rejection.body_text()))
    }
}

/// Path parameters whose errors are problems too.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = axum::extract::Path::from_request_parts(parts, state).await;
        read.map(|axum::extract::Path(path)| Self(path))
            .map_err(|rejection| ApiError::new(rejection.status(), rejection.body_text()))
    }
}
