//! What a server asks the person: a form, filled in line by line, or a page to visit.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use wharfinger::servers::Asked;
use wharfinger::wire::json::{Raw, raw};
use wharfinger::wire::message::{ErrorObject, METHOD_NOT_FOUND};

/// What the server gets.
pub(crate) type Outcome = Result<Raw, ErrorObject>;

/// A question that is being answered. Dropped, the server or the call that waits for it hears that nobody answers.
pub(crate) struct Question {
    message: String,
    fields: Vec<Field>,
    content: Map<String, Value>,
    /// Of `fields`, the one that is asked for.
    next: usize,
    /// A page is visited and not filled in here.
    by_url: bool,
    /// The server wants no answer any more.
    pub(crate) taken_back: CancellationToken,
    give: Box<dyn FnOnce(Outcome) + Send>,
}

/// One property of a form.
struct Field {
    name: String,
    label: String,
    kind: String,
    choices: Vec<String>,
    required: bool,
    /// What Enter stands for.
    default: Option<Value>,
}

impl Question {
    /// One that came on a server's connection, in the middle of a call or between calls.
    pub(crate) fn asked(asked: Asked) -> Option<Self> {
        let (method, taken_back) = (asked.method.clone(), asked.cancelled().clone());
        let params = asked.params.as_deref().map_or("null", RawValue::get);
        let params = serde_json::from_str(params).unwrap_or_default();
        Self::new(
            &method,
            &params,
            taken_back,
            Box::new(|outcome| asked.answer(outcome)),
        )
    }

    /// Declarations say what can be asked; what else comes is answered at once, and there is nothing to ask.
    pub(crate) fn new(
        method: &str,
        params: &Value,
        taken_back: CancellationToken,
        give: Box<dyn FnOnce(Outcome) + Send>,
    ) -> Option<Self> {
        if method != "elicitation/create" {
            let text = format!("this host does not do {method}");
            give(Err(ErrorObject::new(METHOD_NOT_FOUND, text)));
            return None;
        }
        let schema = &params["requestedSchema"];
        let fields = schema["properties"].as_object().into_iter().flatten();
        let required = schema["required"].as_array();
        let is_required = |name: &str| required.is_some_and(|all| all.contains(&json!(name)));
        let mut message = text(&params["message"]);
        let by_url = params["mode"] == "url";
        if by_url {
            message = format!("{message}\n  {}", text(&params["url"]));
        }
        Some(Self {
            message,
            fields: fields
                .map(|(name, schema)| Field::new(name, schema, is_required(name)))
                .collect(),
            content: Map::new(),
            next: 0,
            by_url,
            taken_back,
            give,
        })
    }

    /// What to show when it is the person's turn to answer.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// What the next line is taken for.
    pub(crate) fn prompt(&self) -> String {
        match self.fields.get(self.next) {
            Some(field) => field.prompt(),
            None => "Enter accepts".to_owned(),
        }
    }

    /// Takes a line for what was asked for; gives the question back while more is to be asked, and with a complaint
    /// where the line does not do.
    pub(crate) fn typed(mut self, line: &str) -> Option<(Self, Option<String>)> {
        if let Some(field) = self.fields.get(self.next) {
            match field.value(line.trim()) {
                Ok(Some(value)) => drop(self.content.insert(field.name.clone(), value)),
                Ok(None) => {}
                Err(complaint) => return Some((self, Some(complaint))),
            }
            self.next += 1;
            if self.next < self.fields.len() {
                return Some((self, None));
            }
        }
        let mut answer = json!({"action": "accept"});
        if !self.by_url {
            answer["content"] = self.content.into();
        }
        (self.give)(Ok(raw(&answer)));
        None
    }

    /// The person does not want to.
    pub(crate) fn decline(self) {
        (self.give)(Ok(raw(&json!({"action": "decline"}))));
    }
}

impl Field {
    fn new(name: &str, schema: &Value, required: bool) -> Self {
        let items = &schema["items"];
        let choices = ["enum", "oneOf", "anyOf"].into_iter().flat_map(|key| {
            let own = schema[key].as_array().into_iter().flatten();
            own.chain(items[key].as_array().into_iter().flatten())
        });
        let choices = choices.map(|choice| text(choice.get("const").unwrap_or(choice)));
        let titles = [&schema["title"], &schema["description"]].map(text);
        let [title, description] = titles;
        let label = [title, description]
            .into_iter()
            .filter(|one| !one.is_empty());
        Self {
            name: name.to_owned(),
            label: label.collect::<Vec<_>>().join(": "),
            kind: text(&schema["type"]),
            choices: choices.collect(),
            required,
            default: schema.get("default").cloned(),
        }
    }

    fn prompt(&self) -> String {
        let mut text = format!("{} ({}", self.name, self.kind);
        if self.kind == "array" {
            text.push_str(", with commas between");
        }
        if !self.choices.is_empty() {
            text = format!("{text}: {}", self.choices.join(", "));
        }
        match &self.default {
            Some(default) => text = format!("{text}; Enter means {default}"),
            None if self.required => {}
            None => text.push_str("; Enter leaves it out"),
        }
        format!("{text}) {}", self.label).trim_end().to_owned()
    }

    /// The value that a line stands for; none where it is left out.
    fn value(&self, line: &str) -> Result<Option<Value>, String> {
        if line.is_empty() && (self.default.is_some() || !self.required) {
            return Ok(self.default.clone());
        }
        let known =
            |choice: &str| self.choices.is_empty() || self.choices.iter().any(|c| c == choice);
        let value = match self.kind.as_str() {
            "string" if known(line) => Value::from(line),
            "array" => {
                let chosen: Vec<&str> = line.split(',').map(str::trim).collect();
                if let Some(odd) = chosen.iter().find(|choice| !known(choice)) {
                    return Err(format!("`{odd}` is none of {}", self.choices.join(", ")));
                }
                chosen.into()
            }
            "string" => return Err(format!("`{line}` is none of {}", self.choices.join(", "))),
            kind => {
                let value: Value = serde_json::from_str(line).unwrap_or_default();
                let fits = match kind {
                    "boolean" => value.is_boolean(),
                    "integer" => value.is_i64() || value.is_u64(),
                    _ => value.is_number(),
                };
                if !fits {
                    return Err(format!("`{line}` is no {kind}"));
                }
                value
            }
        };
        Ok(Some(value))
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
