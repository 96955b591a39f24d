//! Whatever a server answers and a client asks with passes through, in every pairing of eras, as it was written.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseResult;
use serde_json::json;
use serde_json::value::RawValue;
use wharfinger_fuzz::client::{Client, Way};
use wharfinger_fuzz::dock::Dock;
use wharfinger_wire::json::Object;

use crate::json_text::{any_object, array, member, name, number_code, object, string, value};
use crate::support::for_a_while;

const HELPER: &str = env!("CARGO_BIN_EXE_fuzz-helper");

#[test]
fn results_errors_and_arguments_are_what_they_were() {
    let dock = Dock::start(Path::new(HELPER), None, &json!({}));
    let token = dock.agent("default");
    let mut clients: BTreeMap<Way, Client<'_>> = BTreeMap::new();
    for way in Way::ALL {
        let client = dock.runtime.block_on(Client::begin(&dock, way, &token));
        clients.insert(way, client);
    }
    let clients = std::cell::RefCell::new(clients);
    for_a_while(&case(), |case| {
        for client in clients.borrow_mut().values_mut() {
            dock.runtime.block_on(case.check(client))?;
        }
        Ok(())
    });
    drop(clients);
    dock.close();
}

/// What passes in one go.
#[derive(Debug, Clone)]
struct Case {
    result: String,
    arguments: String,
    error: String,
}

fn case() -> impl Strategy<Value = Case> {
    (result(), any_object(), error()).prop_map(|(result, arguments, error)| Case {
        result,
        arguments,
        error,
    })
}

/// Members that only one of the eras has, or that mean something to who passes results on. Deeper down they mean nothing.
const KNOWN: [&str; 6] = [
    "resultType",
    "ttlMs",
    "cacheScope",
    "_meta",
    "task",
    "taskId",
];

/// Any result of a call.
fn result() -> impl Strategy<Value = String> {
    let text = member_named("\"text\"", string());
    let block = object(prop_oneof![
        select(vec![
            r#""type":"text""#,
            r#""type":"hologram""#,
            r#""annotations":{}"#
        ])
        .prop_map(str::to_owned),
        text,
        member(value()),
    ]);
    let own = name().prop_filter("a name that means something", |name| {
        let read: String = serde_json::from_str(name).unwrap_or_default();
        !KNOWN.contains(&&*read)
    });
    let members = prop_oneof![
        3 => member_named("\"content\"", array(prop_oneof![block, value()])),
        1 => member_named("\"structuredContent\"", value()),
        1 => member_named("\"structuredContent\"", any_object()),
        1 => member_named("\"isError\"", value()),
        3 => (own, value()).prop_map(|(name, value)| format!("{name}:{value}")),
    ];
    let members = proptest::collection::vec(members, 0..6);
    let meta = proptest::option::of(any_object());
    (members, meta).prop_map(|(mut members, meta)| {
        if let Some(meta) = meta {
            members.insert(members.len() / 2, format!("\"_meta\" : {meta}"));
        }
        format!("{{ {} }}", members.join(","))
    })
}

/// Any error of a server.
fn error() -> impl Strategy<Value = String> {
    let code = number_code();
    let more = proptest::collection::vec(member(value()), 0..3);
    (code, string(), more).prop_map(|(code, message, more)| {
        let mut members = vec![
            format!("\"code\": {code}"),
            format!("\"message\":{message}"),
        ];
        members.extend(more);
        format!("{{{}}}", members.join(" , "))
    })
}

fn member_named(
    name: &'static str,
    value: impl Strategy<Value = String> + Clone,
) -> impl Strategy<Value = String> + Clone {
    value.prop_map(move |value| format!("{name}:{value}"))
}

impl Case {
    async fn check(&self, client: &mut Client<'_>) -> TestCaseResult {
        for stateless in [false, true] {
            let prefix = if stateless { "new_" } else { "old_" };
            let pair = format!("{:?}, {prefix}", client.way());
            let tool = |name: &str| format!("{prefix}{name}");

            let reply = client.call(&tool("show"), &self.arguments).await;
            let result = payload(&reply, "result", &pair)?;
            let shown = Object::from_raw(&result).unwrap_or_default();
            let shown = shown.get("arguments").map(RawValue::get);
            prop_assert_eq!(shown, Some(&*one_line(&self.arguments)), "{}", &pair);

            let given = format!("{{\"result\":{}}}", self.result);
            let reply = client.call(&tool("give"), &given).await;
            let result = payload(&reply, "result", &pair)?;
            self.check_result(&result, client.way(), stateless, &pair)?;

            let given = format!("{{\"error\":{}}}", self.error);
            let reply = client.call(&tool("fail"), &given).await;
            let error = payload(&reply, "error", &pair)?;
            prop_assert_eq!(error.get(), one_line(&self.error), "{}", &pair);
        }
        Ok(())
    }

    fn check_result(
        &self,
        result: &RawValue,
        way: Way,
        stateless: bool,
        pair: &str,
    ) -> TestCaseResult {
        let expected = one_line(&self.result);
        let expected = Object::parse(&expected).expect("it was made to be an object");
        // The handshake era has structured content only as an object.
        let unstructured = !way.is_stateless()
            && expected.contains("structuredContent")
            && expected.object("structuredContent").is_none();
        if !way.is_stateless() && !stateless && !unstructured {
            // Not even the space between its members is touched, unless something had to go.
            let odd = ["ttlMs", "cacheScope", "resultType"];
            if !odd.iter().any(|name| expected.contains(name)) {
                prop_assert_eq!(result.get(), one_line(&self.result), "{}", pair);
            }
        }
        let mut dropped = vec!["_meta"];
        dropped.extend(unstructured.then_some("structuredContent"));
        let result = Object::from_raw(result)
            .map_err(|error| TestCaseError::fail(format!("{pair}: {error}")))?;
        prop_assert_eq!(
            members(&result, &KNOWN),
            members(&expected, &dropped),
            "{}",
            pair
        );
        let server = ["io.modelcontextprotocol/serverInfo"];
        let meta = |object: &Object<'_>| {
            let meta = object.object("_meta").unwrap_or_default();
            members(&meta, &server)
        };
        prop_assert_eq!(meta(&result), meta(&expected), "{}", pair);
        let kind = result.text("resultType");
        let expected = way.is_stateless().then_some("complete");
        prop_assert_eq!(kind.as_deref(), expected, "{}", pair);
        Ok(())
    }
}

/// Messages to servers are lines, so line ends between tokens become spaces.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

fn members(object: &Object<'_>, but: &[&str]) -> Vec<(String, String)> {
    let others = object.iter().filter(|(name, _)| !but.contains(name));
    others
        .map(|(name, value)| (name.to_owned(), value.get().to_owned()))
        .collect()
}

/// The result or the error of a reply.
fn payload(reply: &str, member: &str, pair: &str) -> Result<Box<RawValue>, TestCaseError> {
    let object = Object::parse(reply).ok();
    let payload = object.and_then(|object| object.get(member).map(ToOwned::to_owned));
    payload.ok_or_else(|| TestCaseError::fail(format!("{pair}: no {member} in {reply}")))
}
