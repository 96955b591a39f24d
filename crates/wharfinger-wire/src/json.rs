//! Shallow objects over raw JSON.
//!
//! An [`Object`] is looked into one level deep. Its values stay the text they were, so reading one
//! member or adding another costs nothing for the rest and changes nothing in it. Values may be
//! nested to any depth: they are skipped over without recursion.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

/// A JSON value as text, owned.
pub type Raw = Box<RawValue>;

/// The members of a JSON object in their order, each value raw.
///
/// Repeated keys are kept when nothing is changed. Readers get the last one; writing or removing a
/// key leaves no other copy of it behind, so nobody downstream can see an older value.
///
/// ```
/// use wharfinger_wire::json::{Object, raw};
///
/// let mut tool = Object::parse(r#"{"name":"add","x":1e400}"#)?;
/// tool.set("name", raw("calculator_add"));
/// assert_eq!(tool.to_raw().get(), r#"{"name":"calculator_add","x":1e400}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Object<'a>(Vec<Member<'a>>);

type Member<'a> = (Cow<'a, str>, Cow<'a, RawValue>);

impl<'a> Object<'a> {
    /// An object without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the text of one JSON object; any other value is an error.
    pub fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Reads a raw value that must be an object.
    pub fn from_raw(raw: &'a RawValue) -> Result<Self, serde_json::Error> {
        Self::parse(raw.get())
    }

    /// The value of a key; of the last one if the key is repeated.
    pub fn get(&self, key: &str) -> Option<&RawValue> {
        self.0
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| &**value)
    }

    /// Whether the key is there, with any value.
    pub fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The value of a key, if it is a string.
    pub fn text(&self, key: &str) -> Option<Cow<'_, str>> {
        self.get(key).and_then(string)
    }

    /// The value of a key, if it is an object.
    pub fn object(&self, key: &str) -> Option<Object<'_>> {
        self.get(key).and_then(|value| Object::from_raw(value).ok())
    }

    /// Replaces the value of a key where it stands, or appends the member.
    pub fn set(&mut self, key: impl Into<Cow<'a, str>>, value: Raw) {
        self.put(key.into(), Cow::Owned(value));
    }

    /// As [`set`](Self::set), without owning the value.
    pub fn set_borrowed(&mut self, key: impl Into<Cow<'a, str>>, value: &'a RawValue) {
        self.put(key.into(), Cow::Borrowed(value));
    }

    fn put(&mut self, key: Cow<'a, str>, value: Cow<'a, RawValue>) {
        let Some(at) = self.0.iter().position(|(name, _)| *name == key) else {
            self.0.push((key, value));
            return;
        };
        let mut index = 0;
        self.0.retain(|(name, _)| {
            index += 1;
            index - 1 <= at || *name != key
        });
        self.0[at].1 = value;
    }

    /// Takes every member of that key out and returns the value readers saw.
    pub fn remove(&mut self, key: &str) -> Option<Raw> {
        let mut removed = None;
        self.0.retain_mut(|(name, value)| {
            let found = name == key;
            if found {
                removed = Some(value.clone().into_owned());
            }
            !found
        });
        removed
    }

    /// The members in their order, repeated keys included.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends the object's JSON to a buffer.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        for (index, (name, value)) in self.0.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write_string(out, name);
            out.push(b':');
            out.extend_from_slice(value.get().as_bytes());
        }
        out.push(b'}');
    }

    /// The object as a raw value.
    pub fn to_raw(&self) -> Raw {
        // Unlike a text, what is written by a serializer is not read once more.
        raw(self)
    }

    /// The same object, borrowing nothing.
    pub fn into_owned(self) -> Object<'static> {
        let own = |(name, value): Member<'_>| {
            (
                Cow::Owned(name.into_owned()),
                Cow::Owned(value.into_owned()),
            )
        };
        Object(self.0.into_iter().map(own).collect())
    }
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((Text(name), value)) = map.next_entry::<Text<'de>, &RawValue>()? {
                    members.push((name, Cow::Borrowed(value)));
                }
                Ok(Object(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// A string that stays borrowed where it holds no escape.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(Either)
    }
}

/// The items of a raw value that must be an array.
pub fn array(raw: &RawValue) -> Result<Vec<&RawValue>, serde_json::Error> {
    serde_json::from_str(raw.get())
}

/// The text of a raw value, if it is a string.
pub fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(raw.get())
        .ok()
        .map(|text| text.0)
}

/// A value as raw JSON.
///
/// Panics if the value refuses to be written as JSON, as a map whose keys are not strings does.
pub fn raw<T: Serialize + ?Sized>(value: &T) -> Raw {
    serde_json::value::to_raw_value(value).expect("the value can be written as JSON")
}

/// Checks that a text is one JSON value.
pub fn raw_from(text: String) -> Result<Raw, serde_json::Error> {
    RawValue::from_string(text)
}

/// An object without members, as raw JSON.
pub fn empty_object() -> Raw {
    Object::new().to_raw()
}

/// Appends a string, quoted and escaped.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("writing a string to memory does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_touched_comes_out_as_it_went_in() {
        let rows = [
            r"{}",
            r#"{"b":1,"a":2}"#,
            r#"{"n":10000000000000000000000000000000000000000,"f":1.0,"e":1e400,"z":-0}"#,
            r#"{"s":"\u00e9\ud800","o":{"x" : [ 1, {} ]},"t":true,"u":null}"#,
            r#"{"a":1,"a":2}"#,
        ];
        for text in rows {
            assert_eq!(Object::parse(text).unwrap().to_raw().get(), text);
            assert_eq!(
                Object::parse(text).unwrap().into_owned().to_raw().get(),
                text
            );
        }
    }

    #[test]
    fn members_are_set_in_place_and_removed_with_all_their_copies() {
        fn check(before: &str, change: impl Fn(&mut Object<'_>), after: &str) {
            let mut object = Object::parse(before).unwrap();
            change(&mut object);
            assert_eq!(object.to_raw().get(), after);
        }
        check("{}", |o| o.set("a", raw(&1)), r#"{"a":1}"#);
        check(
            r#"{"a":1,"b":2}"#,
            |o| o.set("a", raw("x")),
            r#"{"a":"x","b":2}"#,
        );
        check(
            r#"{"a":1,"b":2,"a":3}"#,
            |o| o.set("a", raw(&4)),
            r#"{"a":4,"b":2}"#,
        );
        check(
            r#"{"a":1,"b":2,"a":3}"#,
            |o| drop(o.remove("a")),
            r#"{"b":2}"#,
        );
        check(r#"{"a":1}"#, |o| drop(o.remove("b")), r#"{"a":1}"#);
        check("{}", |o| o.set("\"\n", raw(&1)), r#"{"\"\n":1}"#);
    }

    #[test]
    fn readers_see_the_last_of_repeated_keys() {
        let mut object = Object::parse(r#"{"a":"x","a":"\u0079","o":{"k":1}}"#).unwrap();
        assert_eq!(object.text("a").as_deref(), Some("y"));
        assert_eq!(object.text("o"), None);
        assert_eq!(object.object("o").unwrap().get("k").unwrap().get(), "1");
        assert_eq!(object.remove("a").unwrap().get(), r#""\u0079""#);
        assert_eq!(
            object.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            ["o"]
        );
    }

    #[test]
    fn only_objects_are_objects() {
        for text in [
            "",
            "[]",
            "1",
            "null",
            r#""{}""#,
            "{",
            r#"{"a":NaN}"#,
            "{} {}",
        ] {
            assert!(Object::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn depth_is_no_danger() {
        let deep = format!("{}1{}", r#"{"a":["#.repeat(200_000), "]}".repeat(200_000));
        let text = format!(r#"{{"name":"t","inputSchema":{deep}}}"#);
        let object = Object::parse(&text).unwrap();
        assert_eq!(object.get("inputSchema").unwrap().get().len(), deep.len());
        assert_eq!(object.to_raw().get(), text);
        assert_eq!(
            array(&raw_from(format!("[{deep}]")).unwrap())
                .unwrap()
                .len(),
            1
        );
    }
}
