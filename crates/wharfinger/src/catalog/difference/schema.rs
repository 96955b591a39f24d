//! What becomes of a tool's arguments when its schema changes: whether what was right still is.

use std::collections::HashSet;

use super::text::excerpt;
use super::{EMPTY, Lines, pairs};
use crate::catalog::suspicion::{push_key, shown};
use crate::catalog::tree::Node;
use crate::model::Class;

/// Compares schemas and tells what it finds.
pub(super) struct Schemas<'l> {
    lines: &'l mut Lines,
    /// That something allows more does not help here: in a result, or where a schema is turned round by `not` or `oneOf`.
    strict: bool,
    /// Definitions may be used where they are turned round.
    turned: bool,
}

type Maybe<'n> = Option<&'n Node<'n>>;

impl<'l> Schemas<'l> {
    /// For what a tool takes.
    pub(super) fn of_input(lines: &'l mut Lines, old: Maybe<'_>, new: Maybe<'_>) -> Self {
        let turned = [old, new].into_iter().flatten().any(turns);
        Self {
            lines,
            strict: false,
            turned,
        }
    }

    /// For what a tool answers. Whoever reads it is hurt by less as by more.
    pub(super) fn of_output(lines: &'l mut Lines) -> Self {
        Self {
            lines,
            strict: true,
            turned: true,
        }
    }

    /// A schema where there may be none: that is one that allows everything.
    pub(super) fn compare(&mut self, path: &str, old: Maybe<'_>, new: Maybe<'_>) {
        if old == new {
            return;
        }
        match (Allows::of(old), Allows::of(new)) {
            (Allows::All, Allows::All) | (Allows::Nothing, Allows::Nothing) => {
                self.lines.change(path, old, new, Class::Cosmetic);
            }
            (Allows::All, _) | (_, Allows::Nothing) => {
                self.lines.change(path, old, new, Class::Narrower);
            }
            (Allows::Nothing, _) | (_, Allows::All) => self.looser(path, old, new),
            (Allows::Some(old), Allows::Some(new)) => {
                for (keyword, before, after) in pairs(old, new) {
                    self.keyword(path, keyword, (before, after), (old, new));
                }
            }
            (Allows::Unknown, _) | (_, Allows::Unknown) => {
                self.lines.change(path, old, new, Class::Narrower);
            }
        }
    }

    fn keyword(
        &mut self,
        parent: &str,
        keyword: &str,
        (old, new): (Maybe<'_>, Maybe<'_>),
        schemas: (&Node<'_>, &Node<'_>),
    ) {
        let path = &join(parent, keyword);
        match keyword {
            "description" | "title" => self.lines.text(path, old, new),
            "$comment" | "examples" => self.lines.change(path, old, new, Class::Meaning),
            "properties" => self.properties(path, (old, new), schemas),
            "required" => self.required(parent, path, (old, new), schemas),
            "type" => self.types(path, old, new),
            "enum" => self.values(path, old, new),
            "patternProperties" => self.named(path, old, new),
            "$defs" | "definitions" => self.definitions(path, old, new),
            "additionalProperties"
            | "unevaluatedProperties"
            | "additionalItems"
            | "unevaluatedItems"
            | "items"
            | "propertyNames" => self.compare(path, old, new),
            "anyOf" | "oneOf" | "allOf" => self.branches(keyword, path, old, new),
            "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" => {
                self.limit(path, old, new, |old, new| new > old);
            }
            "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" => {
                self.limit(path, old, new, |old, new| new < old);
            }
            "uniqueItems" => {
                let is_on = |value: Maybe<'_>| value.is_some_and(|value| !value.is("false"));
                match (is_on(old), is_on(new)) {
                    (true, false) => self.looser(path, old, new),
                    (false, false) => self.lines.change(path, old, new, Class::Cosmetic),
                    (_, true) => self.lines.change(path, old, new, Class::Narrower),
                }
            }
            "pattern" | "format" | "multipleOf" | "const" | "contentEncoding"
            | "contentMediaType" => {
                self.constraint(path, old, new);
            }
            // `default`, `$ref`, `not`, `if`, and whatever we do not know.
            _ => self.lines.change(path, old, new, Class::Narrower),
        }
    }

    fn looser(&mut self, path: &str, old: Maybe<'_>, new: Maybe<'_>) {
        let class = self.wider();
        self.lines.change(path, old, new, class);
    }

    fn wider(&self) -> Class {
        if self.strict {
            Class::Narrower
        } else {
            Class::Wider
        }
    }

    /// Something that holds as soon as it is there.
    fn constraint(&mut self, path: &str, old: Maybe<'_>, new: Maybe<'_>) {
        match new {
            None => self.looser(path, old, new),
            Some(_) => self.lines.change(path, old, new, Class::Narrower),
        }
    }

    fn limit(
        &mut self,
        path: &str,
        old: Maybe<'_>,
        new: Maybe<'_>,
        is_looser: fn(f64, f64) -> bool,
    ) {
        match (old.and_then(Node::number), new.and_then(Node::number)) {
            #[expect(clippy::float_cmp, reason = "another spelling of the same number")]
            (Some(before), Some(after)) if before == after => {
                self.lines.change(path, old, new, Class::Cosmetic);
            }
            (Some(before), Some(after)) if is_looser(before, after) => self.looser(path, old, new),
            (Some(_), None) if new.is_none() => self.looser(path, old, new),
            _ => self.lines.change(path, old, new, Class::Narrower),
        }
    }

    fn properties(
        &mut self,
        path: &str,
        (old, new): (Maybe<'_>, Maybe<'_>),
        (_, schema): (&Node<'_>, &Node<'_>),
    ) {
        if !objects(old, new) {
            return self.lines.change(path, old, new, Class::Narrower);
        }
        let required = names(schema.get("required"));
        for (name, before, after) in pairs(old.unwrap_or(&EMPTY), new.unwrap_or(&EMPTY)) {
            let path = &join(path, name);
            match (before, after) {
                (None, Some(_)) if required.contains(name) => {
                    self.lines.add(
                        path,
                        "added, required",
                        Class::Narrower,
                        None,
                        after.map(excerpt),
                    );
                }
                (None, Some(_)) => {
                    let class = self.wider();
                    self.lines
                        .add(path, "added, optional", class, None, after.map(excerpt));
                }
                (_, None) => self.lines.change(path, before, after, Class::Narrower),
                (Some(_), Some(_)) => self.compare(path, before, after),
            }
        }
    }

    fn required(
        &mut self,
        parent: &str,
        path: &str,
        (old, new): (Maybe<'_>, Maybe<'_>),
        (before, after): (&Node<'_>, &Node<'_>),
    ) {
        let is_list = |value: Maybe<'_>| {
            value.is_none_or(|value| {
                value
                    .items()
                    .is_some_and(|items| items.iter().all(|item| item.text().is_some()))
            })
        };
        if !is_list(old) || !is_list(new) {
            return self.lines.change(path, old, new, Class::Narrower);
        }
        let (was, is) = (names(old), names(new));
        if was == is {
            return self.lines.change(path, old, new, Class::Cosmetic);
        }
        let property = |schema: &Node<'_>, name: &str| {
            schema
                .get("properties")
                .is_some_and(|all| all.get(name).is_some())
        };
        let mut changed: Vec<&str> = was.symmetric_difference(&is).copied().collect();
        changed.sort_unstable();
        for name in changed {
            let at = &join(&join(parent, "properties"), name);
            if was.contains(name) {
                let class = self.wider();
                self.lines.add(at, "no longer required", class, None, None);
            } else if property(before, name) || !property(after, name) {
                self.lines
                    .add(at, "required now", Class::Narrower, None, None);
            }
        }
    }

    fn types(&mut self, path: &str, old: Maybe<'_>, new: Maybe<'_>) {
        let (Some(before), Some(after)) = (old, new) else {
            return self.constraint(path, old, new);
        };
        match (types(before), types(after)) {
            (Some(was), Some(is)) => match (covers(&is, &was), covers(&was, &is)) {
                (true, true) => self.lines.change(path, old, new, Class::Cosmetic),
                (true, false) => self.looser(path, old, new),
                (false, _) => self.lines.change(path, old, new, Class::Narrower),
            },
            _ => self.lines.change(path, old, new, Class::Narrower),
        }
    }

    fn values(&mut self, path: &str, old: Maybe<'_>, new: Maybe<'_>) {
        let (Some(before), Some(after)) = (old.and_then(Node::items), new.and_then(Node::items))
        else {
            return self.constraint(path, old, new);
        };
        let texts = |items: &[Node<'_>]| items.iter().map(Node::to_json).collect::<HashSet<_>>();
        let (was, is) = (texts(before), texts(after));
        if was == is {
            return self.lines.change(path, old, new, Class::Cosmetic);
        }
        let mut changed: Vec<_> = was.symmetric_difference(&is).collect();
        changed.sort_unstable();
        for value in changed {
            let shown = Some(shown(&value.chars().take(200).collect::<String>()));
            if was.contains(value) {
                self.lines
                    .add(path, "value removed", Class::Narrower, shown, None);
            } else {
                let class = self.wider();
                self.lines.add(path, "value added", class, None, shown);
            }
        }
    }

    /// Schemas by the names they hold for. One more is one more constraint, and one less may forbid what it allowed.
    fn named(&mut self, path: &str, old: Maybe<'_>, new: Maybe<'_>) {
        if !objects(old, new) {
            return self.lines.change(path, old, new, Class::Narrower);
        }
        for (name, before, after) in pairs(old.unwrap_or(&EMPTY), new.unwrap_or(&EMPTY)) {
            let path = &join(path, name);
            if before.is_some() && after.is_some() {
                self.compare(path, before, after);
            } else {
                self.lines.change(path, before, after, Class::Narrower);
            }
        }
    }

    /// Schemas that others refer to: one more changes nothing by itself.
    fn definitions(&mut self, path: &str, old: Maybe<'_>, new: Maybe<'_>) {
        if !objects(old, new) {
            return self.lines.change(path, old, new, Class::Narrower);
        }
        let outside = self.strict;
        self.strict |= self.turned;
        for (name, before, after) in pairs(old.unwrap_or(&EMPTY), new.unwrap_or(&EMPTY)) {
            let path = &join(path, name);
            match (before, after) {
                (None, _) => self.looser(path, before, after),
                (_, None) => self.lines.change(path, before, after, Class::Narrower),
                (Some(_), Some(_)) => self.compare(path, before, after),
            }
        }
        self.strict = outside;
    }

    /// One more alternative allows more. All else about branches is compared one by one or counts as less: what a branch
    /// looks at may matter elsewhere.
    fn branches(&mut self, keyword: &str, path: &str, old: Maybe<'_>, new: Maybe<'_>) {
        let (Some(before), Some(after)) = (old.and_then(Node::items), new.and_then(Node::items))
        else {
            return self.lines.change(path, old, new, Class::Narrower);
        };
        let texts = |items: &[Node<'_>]| items.iter().map(Node::to_json).collect::<HashSet<_>>();
        let (was, is) = (texts(before), texts(after));
        if was == is && before.len() == after.len() && was.len() == before.len() {
            return self.lines.change(path, old, new, Class::Cosmetic);
        }
        if keyword == "anyOf" && was.is_subset(&is) {
            return self.looser(path, old, new);
        }
        if before.len() != after.len() {
            return self.lines.change(path, old, new, Class::Narrower);
        }
        let outside = self.strict;
        // What two branches allow, `oneOf` does not.
        self.strict |= keyword == "oneOf";
        for (index, (before, after)) in before.iter().zip(after).enumerate() {
            self.compare(&format!("{path}[{index}]"), Some(before), Some(after));
        }
        self.strict = outside;
    }
}

/// What a schema allows, as far as that is quickly seen.
enum Allows<'n> {
    All,
    Nothing,
    Some(&'n Node<'n>),
    Unknown,
}

impl<'n> Allows<'n> {
    fn of(schema: Maybe<'n>) -> Self {
        match schema {
            None => Self::All,
            Some(schema) if schema.is("true") => Self::All,
            Some(schema) if schema.is("false") => Self::Nothing,
            Some(Node::Object(members)) if members.is_empty() => Self::All,
            Some(schema @ Node::Object(_)) => Self::Some(schema),
            Some(_) => Self::Unknown,
        }
    }
}

/// Whether somewhere in a schema less of one part is more of the whole.
fn turns(schema: &Node<'_>) -> bool {
    match schema {
        Node::Object(members) => members.iter().any(|(key, value)| {
            matches!(
                &**key,
                "not" | "if" | "oneOf" | "contains" | "dependentSchemas" | "dependencies"
            ) || turns(value)
        }),
        Node::Array(items) => items.iter().any(turns),
        Node::Text(_) | Node::Plain(_) => false,
        Node::Opaque(_) => true,
    }
}

fn objects(old: Maybe<'_>, new: Maybe<'_>) -> bool {
    [old, new]
        .into_iter()
        .flatten()
        .all(|node| matches!(node, Node::Object(_)))
}

fn names(list: Maybe<'_>) -> HashSet<&str> {
    list.and_then(Node::items)
        .into_iter()
        .flatten()
        .filter_map(Node::text)
        .collect()
}

fn types<'n>(node: &'n Node<'_>) -> Option<Vec<&'n str>> {
    match node {
        Node::Text(one) => Some(vec![one]),
        Node::Array(items) => items.iter().map(Node::text).collect(),
        _ => None,
    }
}

/// Whether every value of the second types is of the first.
fn covers(these: &[&str], those: &[&str]) -> bool {
    those
        .iter()
        .all(|one| these.contains(one) || (*one == "integer" && these.contains(&"number")))
}

fn join(path: &str, key: &str) -> String {
    let mut path = path.to_owned();
    push_key(&mut path, key);
    path
}
