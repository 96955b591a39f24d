//! Asking the client. In the era of the handshake that is a request, and the tool goes on when the
//! answer is there. In the stateless era the tool ends with its questions, and runs again from its
//! first line when the client comes back with the answers. A tool is written once for both:
//! [`Dialogue::ask`] returns at once if all is answered already.

use rmcp::model::{
    ClientCapabilities, ErrorData, InputRequest, InputRequests, InputRequiredResult,
    InputResponses, RequestStateCodec, SealOptions,
};
use rmcp::service::{RequestContext, ServiceError};
use rmcp::{Peer, RoleServer};
use serde::Serialize;
use serde_json::{Value, json};

use crate::era::Era;
use crate::offer::literal;

/// Why a tool does not go on.
pub(crate) enum Detour {
    /// The client shall answer first.
    Ask(Box<InputRequiredResult>),
    /// It never will.
    Fail(ErrorData),
}

impl From<ErrorData> for Detour {
    fn from(error: ErrorData) -> Self {
        Self::Fail(error)
    }
}

/// What came with the request because of an earlier round.
#[derive(Default)]
pub(crate) struct Earlier {
    pub(crate) responses: Option<InputResponses>,
    pub(crate) state: Option<String>,
}

pub(crate) struct Dialogue {
    era: Era,
    /// The tool or prompt; a state of another one isn't taken.
    name: String,
    peer: Peer<RoleServer>,
    capabilities: ClientCapabilities,
    answers: InputResponses,
    /// A state of ours came back.
    remembers: bool,
}

impl Dialogue {
    pub(crate) fn new(
        era: Era,
        name: &str,
        context: &RequestContext<RoleServer>,
        earlier: Earlier,
    ) -> Result<Self, ErrorData> {
        // A server of the handshake era doesn't know of rounds.
        let earlier = match era {
            Era::Handshake => Earlier::default(),
            Era::Stateless => earlier,
        };
        let remembers = earlier.state.is_some();
        let mut answers: InputResponses = match earlier.state {
            None => InputResponses::new(),
            Some(state) => codec()
                .open_json_with(&state, name.as_bytes())
                .map_err(|error| {
                    ErrorData::invalid_params(format!("this isn't our requestState: {error}"), None)
                })?,
        };
        answers.extend(earlier.responses.into_iter().flatten());
        Ok(Self {
            era,
            name: name.to_owned(),
            peer: context.peer.clone(),
            capabilities: context.client_capabilities().unwrap_or_default(),
            answers,
            remembers,
        })
    }

    pub(crate) fn capabilities(&self) -> &ClientCapabilities {
        &self.capabilities
    }

    /// Asks; `questions` is an object of requests. Afterwards each has its [`Dialogue::answer`].
    pub(crate) async fn ask(&mut self, questions: Value) -> Result<(), Detour> {
        self.pose(literal(questions), false).await
    }

    /// The same, and what was answered comes back in the state of the next round.
    pub(crate) async fn ask_and_remember(&mut self, questions: Value) -> Result<(), Detour> {
        self.pose(literal(questions), true).await
    }

    /// The text of an answer: of a member of a form, or what the model said.
    pub(crate) fn answer(&self, question: &str, member: &str) -> String {
        let answer = self.answers.get(question).unwrap_or(&Value::Null);
        match &answer["content"][member] {
            Value::String(text) => text.clone(),
            Value::Null => answer.to_string(),
            other => other.to_string(),
        }
    }

    pub(crate) fn whole_answer(&self, question: &str) -> &Value {
        self.answers.get(question).unwrap_or(&Value::Null)
    }

    async fn pose(&mut self, questions: InputRequests, remember: bool) -> Result<(), Detour> {
        for question in questions.values() {
            let needed = needs(question);
            if !declares(&self.capabilities, &needed) {
                let needed = literal(needed);
                return Err(ErrorData::missing_required_client_capability(needed).into());
            }
        }
        let open: InputRequests = questions
            .into_iter()
            .filter(|(key, question)| !self.is_answered(key, question))
            .collect();
        match self.era {
            Era::Handshake => {
                for (key, question) in open {
                    let answer = request(&self.peer, question).await.map_err(refused)?;
                    self.answers.insert(key, answer);
                }
                Ok(())
            }
            Era::Stateless if open.is_empty() && (self.remembers || !remember) => Ok(()),
            Era::Stateless => {
                let state = remember.then(|| {
                    let options = SealOptions::new().associated_data(self.name.as_bytes());
                    let sealed = codec().seal_json_with(&self.answers, &options);
                    sealed.expect("answers are JSON")
                });
                let result = InputRequiredResult::new(Some(open), state);
                Err(Detour::Ask(Box::new(result)))
            }
        }
    }

    /// Whether the answer is there and is one to this kind of question.
    fn is_answered(&self, key: &str, question: &InputRequest) -> bool {
        let Some(answer) = self.answers.get(key) else {
            return false;
        };
        match question {
            InputRequest::CreateMessage(_) => answer["content"].is_object(),
            InputRequest::ListRoots(_) => answer["roots"].is_array(),
            _ => match answer["action"].as_str() {
                Some("accept") => answer["content"].is_object(),
                action => matches!(action, Some("decline" | "cancel")),
            },
        }
    }
}

/// The capability, as the protocol writes it, without which nobody may be asked this.
fn needs(question: &InputRequest) -> Value {
    match question {
        InputRequest::CreateMessage(_) => json!({"sampling": {}}),
        InputRequest::ListRoots(_) => json!({"roots": {}}),
        _ => json!({"elicitation": {}}),
    }
}

fn declares(capabilities: &ClientCapabilities, needed: &Value) -> bool {
    let declared = json(capabilities);
    let mut names = needed.as_object().into_iter().flat_map(|it| it.keys());
    names.all(|name| declared.get(name).is_some())
}

#[expect(
    deprecated,
    reason = "the suite of 2025-11-25 asks for sampling and roots"
)]
async fn request(peer: &Peer<RoleServer>, question: InputRequest) -> Result<Value, ServiceError> {
    Ok(match question {
        InputRequest::CreateMessage(it) => json(&peer.create_message(it.params).await?),
        InputRequest::Elicitation(it) => json(&peer.create_elicitation(it.params).await?),
        InputRequest::ListRoots(_) => json(&peer.list_roots().await?),
        _ => Value::Null,
    })
}

fn refused(error: ServiceError) -> ErrorData {
    match error {
        ServiceError::McpError(error) => error,
        other => ErrorData::internal_error(other.to_string(), None),
    }
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("values of the protocol are JSON")
}

/// What a client must not change. The key is no secret: nobody is kept out, the suite only looks
/// whether a change is seen.
fn codec() -> RequestStateCodec {
    RequestStateCodec::try_new(*b"a key of a fixture is no secret!").expect("it is long enough")
}
