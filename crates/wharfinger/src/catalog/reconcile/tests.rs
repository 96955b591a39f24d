//! Listings against what was known, as tables; and, over thousands of made-up histories, what must never happen.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::*;
use crate::catalog::hash::{hash_matches, tool_hash};
use crate::catalog::{Decision, allocate_agent, review};
use crate::model::{ToolStatus, declarations, declare};

fn server() -> ServerName {
    ServerName::new("s").unwrap()
}

fn tool(name: &str, members: &str) -> Tool {
    let text = format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}{members}}}"#);
    Tool {
        name: ToolName::new(name).unwrap(),
        raw: Arc::from(RawValue::from_string(text).unwrap()),
    }
}

const RULES: Rules = Rules {
    new_tools_restricted: true,
    accept: Accept::Nothing,
    now_ms: 7,
};

struct Listing {
    tools: Vec<Tool>,
    listed_for: &'static str,
    complete: bool,
    rules: Rules,
}

fn list(tools: &[Tool]) -> Listing {
    Listing {
        tools: tools.to_vec(),
        listed_for: "plain",
        complete: true,
        rules: RULES,
    }
}

impl Listing {
    fn rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    fn on(&self, before: &Before) -> After {
        let names: Vec<ToolName> = self.tools.iter().map(|tool| tool.name.clone()).collect();
        let names = allocate_agent(&server(), &names, &[], &[]);
        let listed = Listed {
            server: &server(),
            tools: &self.tools,
            names: &names,
            listed_for: self.listed_for,
            complete: self.complete,
        };
        let after = reconcile(&listed, before, &self.rules, &Others::default());
        let again = reconcile(&listed, &known(&after), &self.rules, &Others::default());
        let outcomes: &[Outcome] = &[];
        assert_eq!(
            (&again.declarations, &again.pins, again.outcomes.as_slice()),
            (&after.declarations, &after.pins, outcomes),
            "the same listing changes nothing"
        );
        after
    }
}

fn known(after: &After) -> Before {
    Before {
        declarations: after.declarations.clone(),
        pins: after.pins.clone(),
    }
}

/// Flags as letters, then the status.
fn flags(row: &Declaration) -> String {
    let letter = |flag: bool, letter: char| if flag { letter } else { '-' };
    let status = row.mcp_tool_status.map_or("none", ToolStatus::as_str);
    format!(
        "{}{}{}{} {status}",
        letter(row.enabled, 'e'),
        letter(row.visible, 'v'),
        letter(row.restricted, 'r'),
        letter(row.locked, 'l')
    )
}

fn what(after: &After) -> Vec<&'static str> {
    let word = |outcome: &Outcome| match &outcome.what {
        What::Added => "added",
        What::Changed(_) => "changed",
        What::Reverted => "reverted",
        What::Accepted(_) => "accepted",
        What::Removed => "removed",
        What::Returned => "returned",
        What::Filled => "filled",
    };
    after.outcomes.iter().map(word).collect()
}

/// The first row and what happened.
fn first(after: &After) -> (String, Vec<&'static str>) {
    (flags(&after.declarations[0]), what(after))
}

fn expect(flags: &str, what: &[&'static str]) -> (String, Vec<&'static str>) {
    (flags.to_owned(), what.to_vec())
}

/// After the owner reviewed the only tool, with other flags if wanted.
fn trusted(tool: &Tool, change: impl Fn(&mut Declaration)) -> Before {
    let mut before = known(&list(std::slice::from_ref(tool)).on(&Before::default()));
    let accept = Decision::Accept { seen: None };
    review(
        "mcp_s_a",
        &accept,
        &mut before.declarations,
        &mut before.pins,
    )
    .unwrap();
    change(&mut before.declarations[0]);
    before
}

fn by_hand(row: &str) -> Before {
    let tree = serde_json::from_str(&format!(r#"{{"tools":[{row}]}}"#)).unwrap();
    Before {
        declarations: declarations(&tree),
        pins: vec![],
    }
}

#[test]
fn a150_a_new_tool_is_on_visible_and_restricted_as_the_owner_wants() {
    let tools = [tool("b", ""), tool("a", "")];
    let after = list(&tools).on(&Before::default());
    let names: Vec<_> = after
        .declarations
        .iter()
        .map(|row| row.name.as_str())
        .collect();
    assert_eq!(names, ["mcp_s_b", "mcp_s_a"]);
    assert_eq!(first(&after), expect("evr- new", &["added", "added"]));
    let row = &after.declarations[0];
    assert_eq!(row.mcp_tool_hash, Some(tool_hash(&tools[0])));
    let raw = tools[0].raw.get().to_owned();
    assert_eq!(
        after.pins[0],
        Pin {
            server: server(),
            tool: tools[0].name.clone(),
            exposed: "mcp_s_b".into(),
            listed_for: "plain".into(),
            reviewed: Some(raw.clone()),
            current: Some(raw),
            change: None,
            changed_at: None,
            on_before: None,
        }
    );
    let free = list(&tools).rules(Rules {
        new_tools_restricted: false,
        ..RULES
    });
    assert_eq!(first(&free.on(&Before::default())).0, "ev-- new");
    // A157: what is declared already stays as it is.
    assert_eq!(first(&free.on(&known(&after))), expect("evr- new", &[]));
}

#[test]
fn a_new_tool_that_is_suspicious_is_off_and_not_trusted() {
    let odd = tool("a", r#","description":"<IMPORTANT>x</IMPORTANT>""#);
    let rules = Rules {
        new_tools_restricted: false,
        ..RULES
    };
    let after = list(std::slice::from_ref(&odd))
        .rules(rules)
        .on(&Before::default());
    assert_eq!(first(&after), expect("--r- new", &["added"]));
    assert_eq!(after.outcomes[0].suspicions[0].found, "<important>");
    assert!(!after.pins[0].is_reviewed() && after.pins[0].reviewed.is_none());
    // It never was trusted, so no change of it is taken over either.
    let rules = Rules {
        accept: Accept::Wider,
        ..RULES
    };
    let better = list(&[tool("a", r#","description":"<IMPORTANT>x </IMPORTANT>""#)]).rules(rules);
    let after = better.on(&known(&after));
    assert_eq!(first(&after), expect("--r- changed", &["changed"]));
    let mut before = known(&after);
    review(
        "mcp_s_a",
        &Decision::Accept { seen: None },
        &mut before.declarations,
        &mut before.pins,
    )
    .unwrap();
    assert!(before.pins[0].is_reviewed());
    assert_eq!(flags(&before.declarations[0]), "evr- none");
}

#[test]
fn a151_a_changed_tool_is_off_hidden_and_restricted_until_it_is_reviewed() {
    let one = tool("a", r#","description":"x""#);
    for (rules, row) in [
        (RULES, "ev--"),
        (
            Rules {
                new_tools_restricted: false,
                ..RULES
            },
            "ev--",
        ),
        (
            Rules {
                new_tools_restricted: false,
                ..RULES
            },
            "evr-",
        ),
        (RULES, "--r-"),
    ] {
        let before = trusted(&one, |declaration| {
            declaration.enabled = row.contains('e');
            declaration.visible = row.contains('v');
            declaration.restricted = row.contains('r');
        });
        let two = tool("a", r#","description":"y""#);
        let after = list(std::slice::from_ref(&two)).rules(rules).on(&before);
        assert_eq!(first(&after), expect("--r- changed", &["changed"]), "{row}");
        assert!(hash_matches(
            after.declarations[0].mcp_tool_hash.as_deref().unwrap(),
            &two
        ));
        let pin = &after.pins[0];
        assert_eq!(pin.reviewed.as_deref(), Some(one.raw.get()));
        assert_eq!(pin.current.as_deref(), Some(two.raw.get()));
        assert_eq!(pin.changed_at, Some(7));
        assert!(!pin.is_reviewed());
        let change = pin.change.clone().unwrap();
        assert_eq!(change.to_string(), r#"description: changed: "x" → "y""#);
        assert_eq!(after.outcomes[0].what, What::Changed(Some(change)));
    }
}

#[test]
fn what_the_hash_leaves_out_is_a_change_too() {
    let one = tool("a", r#","annotations":{"readOnlyHint":true}"#);
    let two = tool("a", r#","annotations":{"readOnlyHint":false}"#);
    assert_eq!(tool_hash(&one), tool_hash(&two));
    let after = list(&[two]).on(&trusted(&one, |_| ()));
    assert_eq!(first(&after), expect("--r- changed", &["changed"]));
}

#[test]
fn a148_spacing_order_and_the_form_of_a_hash_are_no_change() {
    let before = trusted(&tool("a", r#","title":"x""#), |row| {
        let text = row.mcp_tool_hash.take().unwrap();
        let digest = <sha2::Sha256 as sha2::Digest>::digest(&text);
        row.mcp_tool_hash = Some(format!("sha256:{}", crate::model::hex(&digest)));
    });
    let text = r#"{ "title":"x", "inputSchema":{"type":"object"}, "name":"a" }"#;
    let spaced = Tool {
        name: ToolName::new("a").unwrap(),
        raw: Arc::from(RawValue::from_string(text.into()).unwrap()),
    };
    let after = list(&[spaced]).on(&before);
    assert_eq!(known(&after), before);
    assert!(after.outcomes.is_empty());
}

#[test]
fn a151_a_row_that_has_another_hash_is_off() {
    let one = tool("a", "");
    let before = trusted(&one, |row| {
        row.mcp_tool_hash = Some("sha256:".to_owned() + &"0".repeat(64));
    });
    let after = list(std::slice::from_ref(&one)).on(&before);
    assert_eq!(first(&after), expect("--r- changed", &["reverted"]));
    assert!(after.pins[0].is_reviewed());
}

#[test]
fn what_the_owner_accepts_beforehand_is_taken_over() {
    let base = r#","description":"ten 10 files""#;
    let one = tool("a", base);
    let cosmetic = tool("a", &base.replace("10", "20"));
    let wider = Tool {
        name: one.name.clone(),
        raw: Arc::from(
            RawValue::from_string(one.raw.get().replace(
                r#""type":"object""#,
                r#""type":"object","properties":{"p":{}}"#,
            ))
            .unwrap(),
        ),
    };
    let narrower = tool("a", &format!(r#"{base},"x":1"#));
    let meaning = tool("a", r#","description":"other""#);
    let suspicious = tool("a", r#","description":"ten\u200b 10 files""#);
    let rows = [
        (&cosmetic, [false, true, true]),
        (&wider, [false, false, true]),
        (&narrower, [false; 3]),
        (&meaning, [false; 3]),
        (&suspicious, [false; 3]),
    ];
    for (two, taken) in rows {
        for (accept, taken) in [Accept::Nothing, Accept::Cosmetic, Accept::Wider]
            .into_iter()
            .zip(taken)
        {
            let listing = list(std::slice::from_ref(two)).rules(Rules { accept, ..RULES });
            for row in ["ev--", "e-r-", "--r-"] {
                let change = |declaration: &mut Declaration| {
                    declaration.enabled = row.contains('e');
                    declaration.visible = row.contains('v');
                    declaration.restricted = row.contains('r');
                };
                let after = listing.on(&trusted(&one, change));
                if taken {
                    assert_eq!(first(&after), expect(&format!("{row} none"), &["accepted"]));
                    assert!(hash_matches(
                        after.declarations[0].mcp_tool_hash.as_deref().unwrap(),
                        two
                    ));
                    let pin = &after.pins[0];
                    assert!(pin.is_reviewed() && pin.change.is_none() && pin.changed_at == Some(7));
                    assert_eq!(pin.current.as_deref(), Some(two.raw.get()));
                } else {
                    assert_eq!(first(&after), expect("--r- changed", &["changed"]));
                }
            }
            // A155: never for a locked row.
            let locked = trusted(&one, |row| row.locked = true);
            assert_eq!(
                first(&listing.on(&locked)),
                expect("--rl changed", &["changed"])
            );
        }
    }
    assert_eq!(Accept::default(), Accept::Nothing);
}

#[test]
fn what_is_accepted_beforehand_has_words() {
    for (accept, word) in [
        (Accept::Nothing, "nothing"),
        (Accept::Cosmetic, "cosmetic"),
        (Accept::Wider, "wider"),
    ] {
        assert_eq!(accept.as_str(), word);
        assert_eq!(Accept::parse(word), Some(accept));
    }
    assert_eq!(Accept::parse("narrower"), None);
}

#[test]
fn while_a_review_is_due_nothing_is_taken_over() {
    let rules = Rules {
        accept: Accept::Wider,
        ..RULES
    };
    let before = trusted(&tool("a", r#","description":"x 1""#), |_| ());
    let changed = list(&[tool("a", r#","description":"y 1""#)])
        .rules(rules)
        .on(&before);
    let after = list(&[tool("a", r#","description":"x 2""#)])
        .rules(rules)
        .on(&known(&changed));
    assert_eq!(first(&after), expect("--r- changed", &["changed"]));
    // The difference is to what was reviewed, not to what came in between.
    assert_eq!(
        after.pins[0].change.as_ref().unwrap().class,
        Class::Cosmetic
    );
}

#[test]
fn what_is_again_what_was_reviewed_stays_off_without_a_difference() {
    let one = tool("a", r#","description":"x","title":"t""#);
    let before = trusted(&one, |_| ());
    let changed = list(&[tool("a", r#","description":"y""#)]).on(&before);
    let text = r#"{"title":"t","name":"a","inputSchema":{"type":"object"},"description":"x"}"#;
    let same = Tool {
        name: one.name.clone(),
        raw: Arc::from(RawValue::from_string(text.into()).unwrap()),
    };
    let after = list(&[same]).on(&known(&changed));
    assert_eq!(first(&after), expect("--r- changed", &["reverted"]));
    assert!(after.pins[0].is_reviewed() && after.pins[0].change.is_none());
    let mut before = known(&after);
    review(
        "mcp_s_a",
        &Decision::Accept { seen: None },
        &mut before.declarations,
        &mut before.pins,
    )
    .unwrap();
    assert_eq!(flags(&before.declarations[0]), "evr- none");
}

#[test]
fn a152_a_tool_that_is_gone_is_off_and_hidden() {
    let one = tool("a", "");
    for (row, after_flags) in [
        ("ev--", "---- removed"),
        ("evr-", "--r- removed"),
        ("evrl", "--rl removed"),
    ] {
        let before = trusted(&one, |declaration| {
            declaration.restricted = row.contains('r');
            declaration.locked = row.contains('l');
        });
        let after = list(&[]).on(&before);
        assert_eq!(first(&after), expect(after_flags, &["removed"]), "{row}");
        assert_eq!(after.outcomes[0].exposed, "mcp_s_a");
        assert_eq!(after.pins[0].current, before.pins[0].current);
    }
}

#[test]
fn a152_only_a_complete_listing_for_the_same_clients_says_what_is_gone() {
    let before = trusted(&tool("a", ""), |_| ());
    for listing in [
        Listing {
            complete: false,
            ..list(&[])
        },
        Listing {
            listed_for: "other",
            ..list(&[])
        },
    ] {
        assert_eq!(known(&listing.on(&before)), before);
    }
    let mut of_other = before.clone();
    of_other.pins[0].server = ServerName::new("s2").unwrap();
    assert_eq!(known(&list(&[]).on(&of_other)), of_other);
    let mut without_row = before;
    without_row.declarations.clear();
    assert_eq!(known(&list(&[]).on(&without_row)), without_row);
}

#[test]
fn a153_a_tool_that_comes_back_is_no_freer_than_before() {
    let one = tool("a", "");
    let free = Rules {
        new_tools_restricted: false,
        ..RULES
    };
    for (row, rules, expect_flags) in [
        ("ev--", free, "ev-- new"),
        ("ev--", RULES, "evr- new"),
        ("evr-", free, "evr- new"),
        ("--r-", free, "--r- new"),
        ("e-r-", free, "--r- new"),
        ("-vr-", free, "--r- new"),
        ("evrl", free, "--rl new"),
    ] {
        let before = trusted(&one, |declaration| {
            declaration.enabled = row.contains('e');
            declaration.visible = row.contains('v');
            declaration.restricted = row.contains('r');
            declaration.locked = row.contains('l');
        });
        let gone = known(&list(&[]).on(&before));
        let after = list(std::slice::from_ref(&one)).rules(rules).on(&gone);
        assert_eq!(first(&after), expect(expect_flags, &["returned"]), "{row}");
        assert!(after.pins[0].is_reviewed() && after.pins[0].on_before.is_none());
        let other = tool("a", r#","title":"x""#);
        let after = list(&[other])
            .rules(Rules {
                accept: Accept::Wider,
                ..rules
            })
            .on(&gone);
        assert_eq!(first(&after).0.replace('l', "-"), "--r- changed", "{row}");
        assert!(after.pins[0].change.is_some() && after.pins[0].on_before.is_none());
    }
}

#[test]
fn a153_what_was_changed_before_it_was_gone_is_still_changed() {
    let before = trusted(&tool("a", ""), |_| ());
    let other = [tool("a", r#","title":"x""#)];
    let changed = list(&other).on(&before);
    let gone = list(&[]).on(&known(&changed));
    assert_eq!(first(&gone), expect("--r- removed", &["removed"]));
    let after = list(&other).on(&known(&gone));
    assert_eq!(first(&after), expect("--r- changed", &["changed"]));
    // And what was never reviewed is not trusted because it went and came.
    let odd = [tool("a", r#","title":"<system>""#)];
    let gone = list(&[]).on(&known(&list(&odd).on(&Before::default())));
    let after = list(&odd).on(&known(&gone));
    assert_eq!(first(&after), expect("--r- changed", &["changed"]));
    assert_eq!(after.outcomes[0].what, What::Changed(None));
}

#[test]
fn a_tool_that_comes_back_is_of_the_listing_it_comes_back_in() {
    let one = [tool("a", "")];
    let gone = known(&list(&[]).on(&trusted(&one[0], |_| ())));
    let after = Listing {
        listed_for: "rich",
        ..list(&one)
    }
    .on(&gone);
    assert_eq!(after.pins[0].listed_for, "rich");
    assert!(list(&[]).on(&known(&after)).outcomes.is_empty());
}

#[test]
fn a153_a_row_with_another_hash_is_changed_when_its_tool_comes_back() {
    let mut gone = known(&list(&[]).on(&trusted(&tool("a", ""), |_| ())));
    gone.declarations[0].mcp_tool_hash = Some("other".into());
    let after = list(&[tool("a", "")]).on(&gone);
    assert_eq!(first(&after), expect("--r- changed", &["changed"]));
    assert_eq!(after.outcomes[0].what, What::Changed(None));
}

#[test]
fn a154_a_row_without_a_hash_gets_one_and_nothing_else() {
    for row in [
        r#"{"name":"mcp_s_a","enabled":true}"#,
        r#"{"name":"mcp_s_a","visible":true,"restricted":true}"#,
        r#"{"name":"mcp_s_a","enabled":true,"visible":true,"locked":true}"#,
    ] {
        let before = by_hand(row);
        let after = list(&[tool("a", "")]).on(&before);
        assert_eq!(
            first(&after),
            expect(&flags(&before.declarations[0]), &["filled"]),
            "{row}"
        );
        assert_eq!(
            after.declarations[0].mcp_tool_hash,
            Some(tool_hash(&tool("a", "")))
        );
        assert!(after.pins[0].is_reviewed());
    }
}

#[test]
fn a154_a_hash_that_was_taken_away_makes_nothing_reviewed() {
    let one = tool("a", "");
    let before = trusted(&one, |row| row.mcp_tool_hash = None);
    let after = list(std::slice::from_ref(&one)).on(&before);
    assert_eq!(first(&after), expect("evr- none", &[]));
    assert_eq!(after.declarations[0].mcp_tool_hash, Some(tool_hash(&one)));
    let after = list(&[tool("a", r#","title":"x""#)]).on(&before);
    assert_eq!(first(&after), expect("--r- changed", &["changed"]));
}

#[test]
fn rows_of_other_programs_are_pinned_as_they_are() {
    let one = tool("a", r#","description":"x""#);
    let text = tool_hash(&one).replace('"', "\\\"");
    let row = |more: &str, hash: &str| {
        by_hand(&format!(
            r#"{{"name":"mcp_s_a","enabled":true,"visible":true,"mcp_tool_hash":"{hash}"{more}}}"#
        ))
    };
    let listing = list(std::slice::from_ref(&one));
    let after = listing.on(&row("", &text));
    assert_eq!(first(&after), expect("ev-- none", &[]));
    assert_eq!(
        (after.declarations[0].clone(), after.pins[0].is_reviewed()),
        (row("", &text).declarations[0].clone(), true)
    );
    // Another spelling of the hash stays, too.
    let spaced = text.replace(':', ": ");
    assert_eq!(
        listing.on(&row("", &spaced)).declarations,
        row("", &spaced).declarations
    );
    // What they turned off is not reviewed by that.
    let after = listing.on(&row(r#","mcp_tool_status":"changed""#, &text));
    assert_eq!(first(&after), expect("ev-- changed", &[]));
    assert!(!after.pins[0].is_reviewed());
    let after = listing.on(&row(r#","mcp_tool_status":"removed""#, &text));
    assert_eq!(first(&after), expect("--r- new", &["returned"]));
    let after = listing.on(&row(r#","mcp_tool_status":"new""#, &text));
    assert_eq!(first(&after), expect("ev-- new", &[]));
    // The text of a hash tells what was there before.
    let after = listing.on(&row("", &text.replace("\\\"x\\\"", "\\\"old\\\"")));
    assert_eq!(first(&after), expect("--r- changed", &["changed"]));
    assert_eq!(
        after.pins[0].change.as_ref().unwrap().to_string(),
        r#"description: changed: "old" → "x""#
    );
    assert_eq!(
        after.pins[0].reviewed.as_deref(),
        Some(r#"{"name":"a","description":"old","inputSchema":{"type":"object"}}"#)
    );
    // A digest does not.
    let after = listing.on(&row("", &format!("sha256:{}", "0".repeat(64))));
    assert_eq!(first(&after), expect("--r- changed", &["changed"]));
    assert_eq!(
        (
            after.outcomes[0].what.clone(),
            after.pins[0].reviewed.clone()
        ),
        (What::Changed(None), None)
    );
    let plain = [tool("a", "")];
    let text = tool_hash(&plain[0])
        .replace('"', "\\\"")
        .replace("object", "array");
    let after = list(&plain).on(&row("", &text));
    assert_eq!(
        after.pins[0].change.as_ref().unwrap().to_string(),
        r#"inputSchema.type: changed: "array" → "object""#
    );
}

#[test]
fn a_row_that_was_taken_away_comes_back_restricted() {
    let one = tool("a", "");
    let free = Rules {
        new_tools_restricted: false,
        ..RULES
    };
    let mut before = trusted(&one, |_| ());
    before.declarations.clear();
    let after = list(std::slice::from_ref(&one)).rules(free).on(&before);
    assert_eq!(first(&after), expect("evr- new", &["returned"]));
    let after = list(&[tool("a", r#","title":"x""#)])
        .rules(free)
        .on(&before);
    assert_eq!(first(&after), expect("--r- changed", &["changed"]));
    assert_eq!(after.declarations.len(), 1);
}

#[test]
fn a155_a_locked_row_is_only_made_stricter() {
    let locked = |row: &mut Declaration| {
        row.locked = true;
        row.restricted = false;
    };
    let before = trusted(&tool("a", ""), locked);
    let changed = list(&[tool("a", r#","title":"x""#)]).on(&before);
    assert_eq!(first(&changed), expect("--rl changed", &["changed"]));
    let gone = list(&[]).on(&before);
    assert_eq!(first(&gone), expect("---l removed", &["removed"]));
}

#[test]
fn of_tools_with_one_name_the_first_counts() {
    let twice = [tool("a", ""), tool("a", r#","title":"x""#)];
    let after = list(&twice).on(&Before::default());
    assert_eq!((after.declarations.len(), what(&after)), (1, vec!["added"]));
    assert_eq!(after.pins[0].current.as_deref(), Some(twice[0].raw.get()));
}

#[test]
fn other_rows_and_pins_stay() {
    let mut before = trusted(&tool("a", ""), |_| ());
    before.declarations.insert(
        0,
        Declaration {
            name: "fs_read".into(),
            ..Declaration::default()
        },
    );
    let mut other = before.pins[0].clone();
    other.server = ServerName::new("s2").unwrap();
    other.exposed = "mcp_s2_a".into();
    before.pins.insert(0, other);
    let after = list(&[tool("a", ""), tool("b", "")]).on(&before);
    assert_eq!(after.declarations[..2], before.declarations);
    assert_eq!(after.pins[..2], before.pins);
    assert_eq!(what(&after), ["added"]);
}

#[test]
fn a_name_that_was_given_anew_is_the_pins_from_then_on() {
    let mut before = trusted(&tool("a", ""), |_| ());
    before.pins[0].exposed = "old".into();
    assert_eq!(
        list(&[tool("a", "")]).on(&before).pins[0].exposed,
        "mcp_s_a"
    );
    before.declarations.clear();
    assert_eq!(
        list(&[tool("a", "")]).on(&before).pins[0].exposed,
        "mcp_s_a"
    );
}

#[test]
fn p13_a_new_server_is_usable_and_gated() {
    let mut tree = serde_json::json!({"tools": [{"name": "fs_read", "enabled": true, "x": 1}]});
    let before = Before {
        declarations: declarations(&tree),
        pins: vec![],
    };
    let after = list(&[tool("a", "")]).on(&before);
    assert!(declare(&mut tree, &after.declarations).unwrap());
    assert_eq!(
        tree,
        serde_json::json!({"tools": [
            {"name": "fs_read", "enabled": true, "x": 1},
            {"name": "mcp_s_a", "enabled": true, "visible": true, "restricted": true,
             "mcp_tool_hash": r#"{"description":"","input_schema":{"type":"object"},"name":"a"}"#,
             "mcp_tool_status": "new"},
        ]})
    );
    assert!(!declare(&mut tree, &after.declarations).unwrap());
}

/// A small generator, the same on every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let index = usize::try_from(self.roll(from.len() as u64)).unwrap();
        from[index].clone()
    }
}

#[test]
fn whatever_happens_nothing_unreviewed_is_on_and_nothing_locked_is_loosened() {
    let variants = [
        "",
        r#","title":"x""#,
        r#","title":"x 1""#,
        r#","title":"x 2""#,
        r#","title":"<system>""#,
        r#","_meta":{"a":1}"#,
    ];
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    for _ in 0..300 {
        let mut before = Before::default();
        for _ in 0..12 {
            let mut tools = vec![];
            for name in ["a", "b"] {
                if dice.roll(4) > 0 {
                    tools.push(tool(name, dice.pick(&variants)));
                }
            }
            let listing = Listing {
                tools,
                listed_for: dice.pick(&["plain", "rich"]),
                complete: dice.roll(4) > 0,
                rules: Rules {
                    new_tools_restricted: dice.roll(2) == 0,
                    accept: dice.pick(&[Accept::Nothing, Accept::Cosmetic, Accept::Wider]),
                    now_ms: 7,
                },
            };
            let after = listing.on(&before);
            for row in &after.declarations {
                let pin = after
                    .pins
                    .iter()
                    .find(|pin| pin.exposed == row.name)
                    .unwrap();
                assert!(!row.enabled || pin.is_reviewed(), "{row:?} {pin:?}");
                let Some(was) = before.declarations.iter().find(|was| was.name == row.name) else {
                    continue;
                };
                let switched_on = row.enabled && !was.enabled;
                assert!(!switched_on || was.mcp_tool_status == Some(ToolStatus::Removed));
                assert!(row.restricted || !was.restricted);
                assert!(
                    !was.locked || (row.locked && !switched_on && (was.visible || !row.visible))
                );
            }
            before = known(&after);
            // The owner does something, too.
            let name = dice.pick(&["mcp_s_a", "mcp_s_b"]);
            match dice.roll(5) {
                0 => {
                    let accept = Decision::Accept { seen: None };
                    drop(review(
                        name,
                        &accept,
                        &mut before.declarations,
                        &mut before.pins,
                    ));
                }
                1 => {
                    drop(review(
                        name,
                        &Decision::Reject,
                        &mut before.declarations,
                        &mut before.pins,
                    ));
                }
                2 => {
                    for row in before
                        .declarations
                        .iter_mut()
                        .filter(|row| row.name == name)
                    {
                        row.locked = !row.locked;
                    }
                }
                3 => {
                    for row in before
                        .declarations
                        .iter_mut()
                        .filter(|row| row.name == name)
                    {
                        row.restricted = false;
                    }
                }
                _ => {}
            }
        }
    }
}
