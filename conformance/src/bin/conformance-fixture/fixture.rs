//! The server itself: which request goes where, and what changes while it runs.
#![expect(deprecated, reason = "logging is, but the suite asks for it")]

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
    CompleteResult, CompletionInfo, ErrorData, GetPromptRequestParams, GetPromptResponse,
    GetTaskParams, GetTaskResult, Implementation, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, LoggingLevel, LoggingMessageNotificationParam,
    PaginatedRequestParams, Prompt, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ServerConfig, SetLevelRequestMethod, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::task_manager::TaskManager;
use rmcp::{Peer, RoleServer, ServerHandler};
use serde_json::json;
use tokio::sync::broadcast;

use crate::asking::{form, user};
use crate::dialogue::{Detour, Dialogue, Earlier};
use crate::era::Era;
use crate::{fixed, offer, tools};

/// How long clients may keep what they got.
const FRESH_MS: u64 = 1000;

/// A list that became another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Tools,
    Prompts,
}

#[derive(Clone)]
pub(crate) struct Fixture(Arc<Shared>);

struct Shared {
    era: Era,
    tasks: TaskManager,
    changes: broadcast::Sender<Change>,
    moving: Mutex<Moving>,
}

/// What requests change.
#[derive(Default)]
struct Moving {
    passing_tool: bool,
    passing_prompt: bool,
    subscribed: BTreeSet<String>,
    /// How much goes into the log, if anybody said so.
    level: Option<LoggingLevel>,
}

impl Fixture {
    pub(crate) fn new(era: Era) -> Self {
        Self(Arc::new(Shared {
            era,
            tasks: TaskManager::new(),
            changes: broadcast::Sender::new(16),
            moving: Mutex::default(),
        }))
    }

    pub(crate) fn era(&self) -> Era {
        self.0.era
    }

    pub(crate) fn tasks(&self) -> &TaskManager {
        &self.0.tasks
    }

    fn moving<T>(&self, with: impl FnOnce(&mut Moving) -> T) -> T {
        let mut moving = self.0.moving.lock().expect("nobody panics with the lock");
        with(&mut moving)
    }

    /// Makes a list another one and tells those who want to know.
    pub(crate) async fn change(&self, change: Change, peer: &Peer<RoleServer>) {
        self.moving(|moving| match change {
            Change::Tools => moving.passing_tool = !moving.passing_tool,
            Change::Prompts => moving.passing_prompt = !moving.passing_prompt,
        });
        // Nobody listening, or nobody there any more: then nobody wants to know.
        match (self.era(), change) {
            (Era::Stateless, _) => drop(self.0.changes.send(change)),
            (Era::Handshake, Change::Tools) => drop(peer.notify_tool_list_changed().await),
            (Era::Handshake, Change::Prompts) => drop(peer.notify_prompt_list_changed().await),
        }
    }

    /// Writes to the log of the client, at the level `info`.
    pub(crate) async fn log(&self, context: &RequestContext<RoleServer>, text: &str) {
        let level = match self.era() {
            // Unless told otherwise, a server decides itself.
            Era::Handshake => self
                .moving(|moving| moving.level)
                .or(Some(LoggingLevel::Info)),
            Era::Stateless => context.meta.log_level(),
        };
        if matches!(level, Some(LoggingLevel::Debug | LoggingLevel::Info)) {
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(text));
            drop(context.peer.notify_logging_message(message).await);
        }
    }

    fn tools(&self) -> Vec<Tool> {
        let passing = self.moving(|moving| moving.passing_tool);
        let mut tools = offer::tools();
        tools.extend(passing.then(offer::passing_tool));
        tools
    }

    fn prompts(&self) -> Vec<Prompt> {
        let passing = self.moving(|moving| moving.passing_prompt);
        let mut prompts = offer::prompts();
        prompts.extend(passing.then(offer::passing_prompt));
        prompts
    }
}

/// A page that has it all, with how long it stays fresh in the era that knows about that.
macro_rules! whole {
    ($fixture:expr, $result:ident, $items:expr) => {{
        let page = $result::with_all_items($items);
        Ok(match $fixture.era() {
            Era::Handshake => page,
            Era::Stateless => page
                .with_ttl_ms(FRESH_MS)
                .with_cache_scope(CacheScope::Private),
        })
    }};
}

impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let name = Implementation::new("conformance-fixture", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(offer::capabilities(self.era()))
            .with_server_info(name)
            .with_instructions("Everything the conformance suite looks for")
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.era().versions().into()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        whole!(self, ListToolsResult, self.tools())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match tools::call(self, request, context).await {
            Ok(response) => Ok(response),
            Err(Detour::Ask(questions)) => Ok((*questions).into()),
            Err(Detour::Fail(error)) => Err(error),
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        whole!(self, ListPromptsResult, self.prompts())
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let name = request.name.as_str();
        if name != "test_input_required_result_prompt" {
            return fixed::prompt(name, &request.arguments.unwrap_or_default()).map(Into::into);
        }
        let earlier = Earlier {
            responses: request.input_responses,
            state: request.request_state,
        };
        let mut dialogue = Dialogue::new(self.era(), name, &context, earlier)?;
        let question = user(
            "What context should the prompt use?",
            &form("context", "string"),
        );
        match dialogue.ask(json!({"user_context": question})).await {
            Ok(()) => {
                let answer = dialogue.answer("user_context", "context");
                Ok(fixed::said_by_user(vec![fixed::text(&answer)]).into())
            }
            Err(Detour::Ask(questions)) => Ok((*questions).into()),
            Err(Detour::Fail(error)) => Err(error),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        whole!(self, ListResourcesResult, offer::resources())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        whole!(self, ListResourceTemplatesResult, offer::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read = fixed::read(&request.uri)?;
        Ok(match self.era() {
            Era::Handshake => read,
            Era::Stateless => read
                .with_ttl_ms(FRESH_MS)
                .with_cache_scope(CacheScope::Private),
        }
        .into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.moving(|moving| moving.subscribed.insert(request.uri));
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.moving(|moving| moving.subscribed.remove(&request.uri));
        Ok(())
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match self.era() {
            Era::Handshake => {
                self.moving(|moving| moving.level = Some(request.level));
                Ok(())
            }
            Era::Stateless => Err(ErrorData::method_not_found::<SetLevelRequestMethod>()),
        }
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let values = fixed::completions(&request.argument.value);
        let info = CompletionInfo::new(values).expect("they are few");
        Ok(CompleteResult::new(info))
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.0.changes.subscribe();
        let sink = subscription.sink();
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = subscription.cancelled() => return Ok(()),
            };
            // What wasn't asked for is refused here.
            match change {
                Ok(Change::Tools) => drop(sink.notify_tool_list_changed().await),
                Ok(Change::Prompts) => drop(sink.notify_prompt_list_changed().await),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return Ok(()),
            }
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.tasks()
            .get_task(&request.task_id)
            .map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks()
            .update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks().cancel_task(&request.task_id)
    }
}
