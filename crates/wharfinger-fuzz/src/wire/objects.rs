//! Shallow objects: reading, writing and changing one member leave all others as they were.

use serde_json::Value;
use serde_json::value::RawValue;
use wharfinger_wire::json::{self, Object, raw};

use super::members;

pub(super) fn check(text: &str) {
    let value: Option<&RawValue> = serde_json::from_str(text).ok();
    if let Some(value) = value {
        check_value(value);
    }
    let Ok(object) = Object::parse(text) else {
        // What has a name that no string can hold can't be read; anything else can.
        let is_object = value.is_some_and(|value| value.get().starts_with('{'));
        assert!(!is_object || text.contains("\\u"), "an object: {text}");
        return;
    };
    assert!(value.is_some(), "not JSON, but an object: {text}");
    check_same(text, &object);
    check_changes(&object);
}

/// It agrees with an ordinary parser, where that one can read the text at all.
fn check_value(value: &RawValue) {
    let Ok(known) = serde_json::from_str::<Value>(value.get()) else {
        return;
    };
    assert_eq!(
        json::string(value).as_deref(),
        known.as_str(),
        "{}",
        value.get()
    );
    assert_eq!(
        json::array(value).ok().map(|items| items.len()),
        known.as_array().map(Vec::len)
    );
    if let Some(known) = known.as_object() {
        let object = Object::from_raw(value).expect("it is an object");
        for (name, member) in known {
            let found = object.get(name).expect("the member is there");
            let found: Value = serde_json::from_str(found.get()).expect("it is JSON");
            assert_eq!(&found, member, "{name}: the last one counts");
        }
    }
}

fn check_same(text: &str, object: &Object<'_>) {
    let written = object.to_raw();
    let mut out = vec![];
    object.write(&mut out);
    assert_eq!(out, written.get().as_bytes());
    let again = Object::from_raw(&written).expect("what was written is an object");
    assert_eq!(members(&again), members(object), "{text}");
    assert_eq!(members(&object.clone().into_owned()), members(object));
    assert_eq!(again.to_raw().get(), written.get());
    assert_eq!(object.len(), members(object).len());
    assert_eq!(object.is_empty(), members(object).is_empty());
}

fn check_changes(object: &Object<'_>) {
    let before = members(object);
    let others = |name: &str, members: &[(String, String)]| -> Vec<(String, String)> {
        let other = |member: &&(String, String)| member.0 != name;
        members.iter().filter(other).cloned().collect()
    };
    let first_and_last = before.first().into_iter().chain(before.last());
    let names = first_and_last.map(|(name, _)| name.as_str());
    for name in names.chain(["_meta", "not there"]) {
        let last = before.iter().rev().find(|member| member.0 == name);
        assert_eq!(
            object.get(name).map(RawValue::get),
            last.map(|(_, value)| &**value)
        );
        assert_eq!(object.contains(name), last.is_some());

        let mut changed = object.clone();
        changed.set(name.to_owned(), raw("new"));
        let after = members(&changed);
        assert_eq!(others(name, &after), others(name, &before));
        let set: Vec<_> = after.iter().filter(|member| member.0 == name).collect();
        assert_eq!(set, [&(name.to_owned(), "\"new\"".to_owned())]);
        let place = |members: &[(String, String)]| members.iter().position(|m| m.0 == name);
        let expected = place(&before).unwrap_or(before.len());
        assert_eq!(place(&after), Some(expected), "it stays where it stood");

        let mut changed = object.clone();
        let removed = changed.remove(name);
        assert_eq!(
            removed.as_deref().map(RawValue::get),
            last.map(|(_, value)| &**value)
        );
        assert_eq!(members(&changed), others(name, &before));
    }
}
