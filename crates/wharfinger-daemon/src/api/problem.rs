//! Errors of the API: problem JSON (RFC 9457), with a map of fields where an entry is wrong.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use wharfinger::AgentError;
use wharfinger::agentfile;
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
    #[schema(value_type = String)]
    detail: Box<str>,
    /// The way out, where one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    hint: Option<Box<str>>,
    /// By the name of the field, what is wrong with it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    fields: BTreeMap<String, Vec<String>>,
    /// What would be run by what has to be confirmed first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    runs: Vec<String>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            r#type: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.into().into(),
            hint: None,
            fields: BTreeMap::new(),
            runs: vec![],
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
        self.hint = Some(hint.into().into());
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
        let status = match &error {
            AgentError::Exists(_)
            | AgentError::Default
            | AgentError::Chat(_)
            | AgentError::Attached { .. }
            | AgentError::Unconfirmed { .. }
            | AgentError::Refused(_)
            | AgentError::File(agentfile::Error::Exists { .. } | agentfile::Error::InUse { .. })
            | AgentError::Unusable { .. } => StatusCode::CONFLICT,
            AgentError::Unknown { .. }
            | AgentError::NoServer { .. }
            | AgentError::NoTool { .. } => StatusCode::NOT_FOUND,
            AgentError::File(_) => StatusCode::UNPROCESSABLE_ENTITY,
            AgentError::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let hint = match &error {
            AgentError::Chat(_) => Some(
                "`wharf agent new NAME --profile agent` makes one that has only what you give it",
            ),
            AgentError::NoTool { .. } => Some("`wharf tools list` shows what it has"),
            _ => None,
        };
        let mut problem = Self::new(status, error.to_string());
        problem.hint = hint.map(Into::into);
        if let AgentError::Unconfirmed { runs } = error {
            problem.runs = runs;
        }
        problem
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

/// A JSON body whose errors are problems too, each by the name of its field (A199).
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        // Whether it is JSON at all is looked at first, and then what it says.
        match Json::<Box<RawValue>>::from_request(request, state).await {
            Ok(Json(text)) => read(text.get()).map(Self),
            Err(rejection) => Err(ApiError::new(rejection.status(), rejection.body_text())),
        }
    }
}

/// The same, for what may be left out.
pub(crate) struct MaybeBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for MaybeBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let read_whole = Bytes::from_request(request, state).await;
        let text = read_whole
            .map_err(|rejection| ApiError::new(rejection.status(), rejection.body_text()))?;
        if text.trim_ascii().is_empty() {
            return Ok(Self(T::default()));
        }
        let text: Box<RawValue> = serde_json::from_slice(&text).map_err(|error| {
            ApiError::new(
                StatusCode::BAD_REQUEST,
                format!("the body is not JSON: {error}"),
            )
        })?;
        read(text.get()).map(Self)
    }
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, ApiError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { String::new() } else { path };
        let said = error.into_inner().to_string();
        // The place in the text says less than the field does.
        let said = said
            .rsplit_once(" at line ")
            .map_or(&*said, |(said, _)| said);
        let missing = said.strip_prefix("missing field `");
        let (field, said) = match missing.and_then(|rest| rest.split('`').next()) {
            Some(name) if path.is_empty() => (name.to_owned(), "is required"),
            Some(name) => (format!("{path}.{name}"), "is required"),
            None => (path, said),
        };
        if field.is_empty() {
            return ApiError::invalid(format!("the body is not as it should be: {said}"));
        }
        ApiError::invalid("the body is not as it should be").with_field(field, said.to_owned())
    })
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
