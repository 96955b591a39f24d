//! `${workspace}` and `${env:NAME}` (V13–V16). One pass: what was put in is not read again.

/// Replaces `${workspace}`; everything else stays literal.
pub fn workspace(text: &str, workspace: &str) -> String {
    expand(text, |name| {
        (name == "workspace").then(|| workspace.to_owned())
    })
}

/// Replaces `${workspace}` and `${env:NAME}` as values of variables allow. `host` gives a host variable; unset ones
/// become empty (V15).
pub fn value(text: &str, dir: &str, mut host: impl FnMut(&str) -> Option<String>) -> String {
    expand(text, |name| match name.strip_prefix("env:") {
        Some(variable) => Some(host(variable).unwrap_or_default()),
        None => (name == "workspace").then(|| dir.to_owned()),
    })
}

/// The host variables a value copies, in order.
pub fn variables(text: &str) -> Vec<String> {
    let mut found = vec![];
    expand(text, |name| {
        found.extend(name.strip_prefix("env:").map(str::to_owned));
        None
    });
    found
}

fn expand(text: &str, mut replace: impl FnMut(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let Some(end) = rest.find('}') else { break };
        if let Some(value) = replace(&rest[2..end]) {
            out.push_str(&value);
            rest = &rest[end + 1..];
        } else {
            // Only the `${` is passed over, so that `${${workspace}` still finds the inner one.
            out.push_str("${");
            rest = &rest[2..];
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v13_workspace_is_replaced_wherever_it_stands() {
        let check = |text: &str, expect: &str| assert_eq!(workspace(text, "/w"), expect, "{text}");
        check("${workspace}", "/w");
        check("--dir=${workspace}/x:${workspace}", "--dir=/w/x:/w");
        check("${workspac}", "${workspac}");
        check("${${workspace}", "${/w");
        check("${workspace", "${workspace");
        check("$workspace {workspace}", "$workspace {workspace}");
        check("é${workspace}é", "é/wé");
    }

    #[test]
    fn v15_variables_are_copied_in_values_only() {
        let host = |name: &str| (name == "TOKEN").then(|| "s3cret".to_owned());
        let check =
            |text: &str, expect: &str| assert_eq!(value(text, "/w", host), expect, "{text}");
        check("${env:TOKEN}", "s3cret");
        check("Bearer ${env:TOKEN} ${workspace}", "Bearer s3cret /w");
        check("[${env:UNSET}]", "[]");
        check("${input:x}", "${input:x}");
        assert_eq!(workspace("${env:TOKEN}", "/w"), "${env:TOKEN}");
        assert_eq!(variables("${env:A}${x}${env:B}"), ["A", "B"]);
    }

    #[test]
    fn v16_what_was_put_in_is_not_read_again() {
        let host = |_: &str| Some("${workspace}${env:X}".to_owned());
        assert_eq!(value("${env:A}", "/w", host), "${workspace}${env:X}");
        assert_eq!(workspace("${workspace}", "${workspace}"), "${workspace}");
    }
}
