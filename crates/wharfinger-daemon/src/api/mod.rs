//! The admin API under `/api`: JSON in and out, problem JSON for errors, event streams, an `OpenAPI` document.
//!
//! On the socket in the home it needs no token; over TCP the owner's.

mod agents;
mod approvals;
mod attached;
mod calls;
mod doctor;
mod events;
mod files;
mod halt;
mod journal;
mod packages;
mod probe;
mod problem;
mod registry;
mod secrets;
mod servers;
pub(crate) mod sessions;
mod status;
mod tools;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, patch, post, put};
use utoipa::OpenApi;

use crate::http::{Way, bearer};
use crate::serve::Daemon;
pub(crate) use problem::ApiError;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Wharfinger admin API",
        description = "What an owner can do with a running daemon."
    ),
    paths(
        status::status,
        status::stop,
        doctor::doctor,
        doctor::trial,
        servers::list,
        servers::show,
        servers::add,
        servers::remove,
        servers::enable,
        servers::disable,
        servers::restart,
        servers::stop,
        servers::discover,
        servers::test,
        probe::probe,
        servers::logs,
        servers::tools,
        packages::install,
        packages::leftover,
        packages::outdated,
        packages::upgrade,
        packages::switch,
        packages::back,
        agents::list,
        agents::show,
        agents::add,
        agents::change,
        agents::remove,
        agents::endpoint,
        agents::mcp,
        agents::mcp_restart,
        attached::attach,
        attached::detach,
        attached::change,
        files::export,
        files::import,
        files::confirm,
        tools::list,
        tools::switch,
        tools::show,
        tools::lock,
        tools::review,
        approvals::list,
        approvals::show,
        approvals::answer,
        approvals::resolve,
        halt::halt,
        halt::release,
        calls::call,
        sessions::list,
        sessions::begin,
        sessions::show,
        sessions::stop,
        sessions::next,
        sessions::end,
        events::events,
        secrets::list,
        secrets::set,
        secrets::remove,
        secrets::unlock,
        secrets::import,
        journal::rows,
        journal::verify,
        journal::follow,
        registry::search,
        registry::show,
        registry::refresh,
    )
)]
struct Document;

/// The `OpenAPI` document, as it is committed.
pub fn openapi() -> String {
    let mut document = Document::openapi();
    for item in document.paths.paths.values_mut() {
        let all = [
            &mut item.get,
            &mut item.post,
            &mut item.put,
            &mut item.patch,
            &mut item.delete,
        ];
        for operation in all.into_iter().flatten() {
            // Unique, as they have to be: names of functions are so in their module only, which is the tag.
            let tag = operation.tags.iter().flatten().next();
            operation.operation_id = tag
                .zip(operation.operation_id.as_ref())
                .map(|(tag, id)| format!("{tag}_{id}"));
        }
    }
    let mut text = document.to_pretty_json().expect("the document serializes");
    text.push('\n');
    text
}

pub(crate) fn router(daemon: &Arc<Daemon>) -> Router<Arc<Daemon>> {
    let one = "/api/servers/{name}";
    let session = "/api/agents/{agent}/sessions/{id}";
    let tool = "/api/agents/{agent}/tools/{tool}";
    Router::new()
        .route("/api/status", get(status::status))
        .route("/api/stop", post(status::stop))
        .route("/api/doctor", get(doctor::doctor))
        .route("/api/openapi.json", get(document))
        .route("/api/events", get(events::events))
        .route("/api/journal", get(journal::rows))
        .route("/api/journal/verify", get(journal::verify))
        .route("/api/journal/follow", get(journal::follow))
        .route("/api/tools", get(servers::tools))
        .route("/api/servers", get(servers::list).post(servers::add))
        .route(one, get(servers::show).delete(servers::remove))
        .route(&format!("{one}/enable"), post(servers::enable))
        .route(&format!("{one}/disable"), post(servers::disable))
        .route(&format!("{one}/restart"), post(servers::restart))
        .route(&format!("{one}/stop"), post(servers::stop))
        .route(&format!("{one}/discover"), post(servers::discover))
        .route(&format!("{one}/test"), post(servers::test))
        .route("/api/probe", post(probe::probe))
        .route(&format!("{one}/trial"), post(doctor::trial))
        .route(&format!("{one}/logs"), get(servers::logs))
        .route(
            &format!("{one}/install"),
            get(packages::leftover).post(packages::install),
        )
        .route(&format!("{one}/upgrade"), post(packages::upgrade))
        .route(&format!("{one}/upgrade/switch"), post(packages::switch))
        .route(&format!("{one}/upgrade/back"), post(packages::back))
        .route("/api/outdated", get(packages::outdated))
        .route("/api/secrets", get(secrets::list))
        .route("/api/secrets/unlock", post(secrets::unlock))
        .route("/api/secrets/import", post(secrets::import))
        .route(
            "/api/secrets/{server}/{key}",
            put(secrets::set).delete(secrets::remove),
        )
        .route("/api/agents", get(agents::list).post(agents::add))
        .route(
            "/api/agents/{agent}",
            get(agents::show)
                .post(files::import)
                .patch(agents::change)
                .delete(agents::remove),
        )
        .route("/api/agents/{agent}/export", post(files::export))
        .route("/api/agents/{agent}/confirm", post(files::confirm))
        .route("/api/agents/{agent}/servers", post(attached::attach))
        .route(
            "/api/agents/{agent}/servers/{server}",
            patch(attached::change).delete(attached::detach),
        )
        .route(
            "/api/agents/{agent}/tools",
            get(tools::list).post(tools::switch),
        )
        .route(tool, get(tools::show))
        .route(&format!("{tool}/lock"), post(tools::lock))
        .route(&format!("{tool}/review"), post(tools::review))
        .route(
            "/api/agents/{agent}/tasks/{id}/resolve",
            post(approvals::resolve),
        )
        .route("/api/approvals", get(approvals::list))
        .route(
            "/api/approvals/{id}",
            get(approvals::show).post(approvals::answer),
        )
        .route("/api/registry", get(registry::search))
        .route("/api/registry/{name}", get(registry::show))
        .route("/api/registry/refresh", post(registry::refresh))
        .route("/api/halt", post(halt::halt))
        .route("/api/release", post(halt::release))
        .route("/api/agents/{agent}/endpoint", get(agents::endpoint))
        .route("/api/agents/{agent}/mcp", get(agents::mcp))
        .route("/api/agents/{agent}/mcp/restart", post(agents::mcp_restart))
        .route("/api/agents/{agent}/call", post(calls::call))
        .route(
            "/api/agents/{agent}/sessions",
            get(sessions::list).post(sessions::begin),
        )
        .route(session, get(sessions::show).delete(sessions::end))
        .route(&format!("{session}/stop"), post(sessions::stop))
        .route(&format!("{session}/next"), post(sessions::next))
        .route("/api", any(unknown))
        .route("/api/", any(unknown))
        .route("/api/{*rest}", any(unknown))
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(daemon.clone(), owner_only))
}

async fn document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], openapi()).into_response()
}

async fn unknown(request: Request) -> ApiError {
    ApiError::unknown(format!("there is no {}", request.uri().path()))
}

async fn wrong_method(request: Request) -> ApiError {
    let (method, path) = (request.method(), request.uri().path());
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{path} has no {method}"),
    )
}

/// Over TCP, only who has the owner's token.
async fn owner_only(State(daemon): State<Arc<Daemon>>, request: Request, next: Next) -> Response {
    let trusted = request.extensions().get::<Way>() == Some(&Way::Socket)
        || bearer(request.headers()).is_some_and(|token| daemon.tokens.is(None, token));
    if trusted {
        return next.run(request).await;
    }
    let error = ApiError::new(
        StatusCode::UNAUTHORIZED,
        "this needs the owner's bearer token",
    )
    .with_hint("it lies in `tokens/owner` in the home of the daemon");
    let mut response = error.into_response();
    let challenge = axum::http::HeaderValue::from_static("Bearer realm=\"wharfinger\"");
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, challenge);
    response
}

/// Runs a change to its end, also when whoever asked for it hangs up meanwhile.
async fn uninterrupted<T: Send + 'static>(
    daemon: &Daemon,
    change: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Result<T, ApiError> {
    let done = daemon.tasks.spawn(change).await;
    done.unwrap_or_else(|error| {
        let detail = format!("the change failed: {error}");
        Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, detail))
    })
}
