//! JSON texts of every kind: what programs write, and what they may write.

use proptest::prelude::*;
use proptest::sample::select;

/// Any JSON value.
pub(crate) fn value() -> impl Strategy<Value = String> + Clone {
    let scalar = prop_oneof![
        2 => select(vec!["null", "true", "false"]).prop_map(str::to_owned),
        4 => number(),
        5 => string(),
    ];
    let nested = scalar.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![array(inner.clone()), object(member(inner))]
    });
    prop_oneof![
        100 => nested.clone(),
        2 => deep(nested),
        1 => (1_usize..14_000).prop_map(|length| format!("\"{}\"", "long ".repeat(length))),
    ]
    .boxed()
}

/// Any JSON object.
pub(crate) fn any_object() -> impl Strategy<Value = String> + Clone {
    object(member(value()))
}

/// Any number, as long and as large as nobody can hold.
fn number() -> impl Strategy<Value = String> + Clone {
    let odd = [
        "0",
        "-0",
        "-0.0",
        "0.10",
        "1.0",
        "1e400",
        "-1E+400",
        "1e-400",
        "1E5",
        "1180591620717411303424",
        "9007199254740993",
        "-9223372036854775809",
        "18446744073709551616",
        "0.1000000000000000055511151231257827",
    ];
    prop_oneof![
        select(odd.to_vec()).prop_map(str::to_owned),
        r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,6})?",
    ]
    .boxed()
}

/// Any string, in any spelling. Half a surrogate pair may be escaped, although no string can hold it.
pub(crate) fn string() -> impl Strategy<Value = String> + Clone {
    spelt(true)
}

/// The name of a member that is read, so it can't hold half a pair.
pub(crate) fn name() -> impl Strategy<Value = String> + Clone {
    spelt(false)
}

fn spelt(halves: bool) -> impl Strategy<Value = String> + Clone {
    let mut escapes = vec![
        r"\n",
        r"\r\n",
        r"\t",
        r"\b\f",
        r"\/",
        "/",
        r"\\",
        r#"\""#,
        r"\u0000",
        r"\u001F",
        r"\u007f",
        r"\u00e9",
        r"\u00E9",
        r"\uD83D\uDE00",
        r"\u0041",
        r"\u2028",
        r"\ufeff",
        "\u{7f}",
        "\u{2028}",
        "\u{feff}",
        "\u{1f600}",
        "e\u{301}",
        "kingfisher-7731-swordfis!",
    ];
    if halves {
        escapes.extend([r"\ud800", r"\uDC00", r"\udc00\ud800"]);
    }
    let plain = |c: char| {
        if c.is_control() || "\"\\".contains(c) {
            'x'
        } else {
            c
        }
    };
    let piece = prop_oneof![
        select(escapes).prop_map(str::to_owned),
        any::<char>().prop_map(move |c| plain(c).to_string()),
        "[a-z _/.-]{0,12}",
    ];
    proptest::collection::vec(piece, 0..5)
        .prop_map(|pieces| format!("\"{}\"", pieces.concat()))
        .boxed()
}

/// A member: its name and its value, with the space between.
pub(crate) fn member(
    value: impl Strategy<Value = String> + Clone + 'static,
) -> impl Strategy<Value = String> + Clone {
    let name = prop_oneof![
        // So that some are there twice.
        3 => select(vec!["\"a\"", "\"b\"", "\"_meta\"", "\"resultType\"", "\"taskId\""])
            .prop_map(str::to_owned),
        2 => string(),
    ];
    (name, space(), value)
        .prop_map(|(name, space, value)| format!("{name}{space}:{space}{value}"))
        .boxed()
}

/// An object of these members.
pub(crate) fn object(
    member: impl Strategy<Value = String> + Clone + 'static,
) -> impl Strategy<Value = String> + Clone {
    list(member, '{', '}')
}

/// An array of these items.
pub(crate) fn array(
    item: impl Strategy<Value = String> + Clone + 'static,
) -> impl Strategy<Value = String> + Clone {
    list(item, '[', ']')
}

fn list(
    item: impl Strategy<Value = String> + Clone + 'static,
    open: char,
    close: char,
) -> impl Strategy<Value = String> + Clone {
    (proptest::collection::vec(item, 0..5), space())
        .prop_map(move |(items, space)| {
            let items = items.join(&format!("{space},{space}"));
            format!("{open}{space}{items}{space}{close}")
        })
        .boxed()
}

fn space() -> impl Strategy<Value = String> + Clone {
    let spaces = ["", " ", "  \t", "\n", "\r\n    "];
    prop_oneof![4 => Just(String::new()), 1 => select(spaces.to_vec()).prop_map(str::to_owned)]
        .boxed()
}

/// Nested deeper than most programs follow.
fn deep(inner: impl Strategy<Value = String> + Clone) -> impl Strategy<Value = String> + Clone {
    let halves = select(vec![
        ("[", "]"),
        ("{\"a\":", "}"),
        ("[ 1,{\"\\u0062\":", "} ]"),
    ]);
    (1_usize..3000, halves, inner).prop_map(|(depth, (open, close), inner)| {
        format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
    })
}

/// The code of an error that means the same in both eras.
pub(crate) fn number_code() -> impl Strategy<Value = String> {
    let odd = [
        "-32603",
        "-32000",
        "-32602",
        "1",
        "0",
        "-1e3",
        "-32000.0",
        "\"E_FAIL\"",
    ];
    prop_oneof![select(odd.to_vec()).prop_map(str::to_owned), number()]
}
