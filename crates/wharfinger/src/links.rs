//! URIs in results: links to resources, and resources that are told with them.

use serde_json::value::RawValue;
use wharfinger_wire::json::{Object, Raw, array, raw};

use crate::kept::joined;

/// A result with other URIs, as `exposed` has them; `None` where it has none for any of them.
///
/// Looked at are `content` of a tool's result, and `messages[].content` of a prompt's.
pub(crate) fn renamed(result: &RawValue, exposed: &impl Fn(&str) -> Option<String>) -> Option<Raw> {
    let mut object = Object::from_raw(result).ok()?;
    let content = object
        .get("content")
        .and_then(|list| each(list, |part| of_part(part, exposed)));
    let messages = object.get("messages").and_then(|list| {
        each(list, |message| {
            let mut message = Object::from_raw(message).ok()?;
            let part = of_part(message.get("content")?, exposed)?;
            message.set("content", part);
            Some(message.to_raw())
        })
    });
    if content.is_none() && messages.is_none() {
        return None;
    }
    for (member, changed) in [("content", content), ("messages", messages)] {
        if let Some(changed) = changed {
            object.set(member, changed);
        }
    }
    Some(object.to_raw())
}

/// A list with some of its items changed; `None` where none is.
pub(crate) fn each(list: &RawValue, change: impl Fn(&RawValue) -> Option<Raw>) -> Option<Raw> {
    let items = array(list).ok()?;
    let changed: Vec<Option<Raw>> = items.iter().map(|item| change(item)).collect();
    if changed.iter().all(Option::is_none) {
        return None;
    }
    let items = items.into_iter().zip(&changed);
    Some(joined(
        items.map(|(item, changed)| changed.as_deref().unwrap_or(item)),
    ))
}

fn of_part(part: &RawValue, exposed: &impl Fn(&str) -> Option<String>) -> Option<Raw> {
    let mut part = Object::from_raw(part).ok()?;
    match part.text("type").as_deref() {
        Some("resource_link") => {
            let uri = exposed(&part.text("uri")?)?;
            part.set("uri", raw(&uri));
        }
        Some("resource") => {
            let mut resource = part.object("resource")?.into_owned();
            let uri = exposed(&resource.text("uri")?)?;
            resource.set("uri", raw(&uri));
            part.set("resource", resource.to_raw());
        }
        _ => return None,
    }
    Some(part.to_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_renamed_and_the_rest_stays_as_it_was() {
        let exposed = |uri: &str| uri.strip_prefix("x:").map(|rest| format!("m+x:{rest}"));
        let check = |text: &str, expect: Option<&str>| {
            let result = RawValue::from_string(text.to_owned()).unwrap();
            let renamed = renamed(&result, &exposed);
            assert_eq!(renamed.as_ref().map(|raw| raw.get()), expect, "{text}");
        };
        check(
            r#"{"content":[{"type":"text","text":"x:1"},{"type":"resource_link","uri":"x:1","n":1e400}],"z":[ 1 ]}"#,
            Some(
                r#"{"content":[{"type":"text","text":"x:1"},{"type":"resource_link","uri":"m+x:1","n":1e400}],"z":[ 1 ]}"#,
            ),
        );
        check(
            r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"x:1","text":""}}}]}"#,
            Some(
                r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"m+x:1","text":""}}}]}"#,
            ),
        );
        check(
            r#"{"content":[{"type":"resource_link","uri":"y:1"}]}"#,
            None,
        );
        check(r#"{"content":7,"messages":[{}]}"#, None);
        check("[]", None);
    }
}
