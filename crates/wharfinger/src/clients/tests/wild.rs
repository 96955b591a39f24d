//! Files that nobody would write, by the thousand.

use super::{named, stdio};
use crate::clients::{NAME, connect, disconnect, is_only_us, read};

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    /// White space and comments, as wild as they may be.
    fn gap(&mut self) -> String {
        const GAPS: &[&str] = &[
            "",
            " ",
            "\n",
            "\r\n",
            "\t",
            "\n\n  ",
            "/* \" { */",
            "// , }\n",
            " // é\r\n  ",
            "/**/ ",
        ];
        (0..self.roll(3))
            .map(|_| GAPS[self.roll(GAPS.len())])
            .collect()
    }

    fn object(&mut self, members: &[(String, String)]) -> String {
        let mut out = format!("{{{}", self.gap());
        for (index, (key, value)) in members.iter().enumerate() {
            let is_last = index + 1 == members.len();
            let comma = if is_last && self.roll(2) == 0 {
                ""
            } else {
                ","
            };
            let mut parts = [self.gap(), self.gap(), self.gap(), self.gap()];
            if key == NAME {
                // What is said within our own entry goes with it.
                parts[0].clear();
                parts[1].clear();
            }
            let [a, b, c, d] = &parts;
            let member = format!("\"{key}\"{a}:{b}{value}{c}{comma}{d}");
            out.push_str(&member);
        }
        out.push('}');
        out
    }

    fn value(&mut self, depth: usize) -> String {
        match self.roll(if depth == 0 { 3 } else { 4 }) {
            0 => "1.50e3".into(),
            1 => "\"a \\\" // \\u00e9 }\"".into(),
            2 => "[null, {\"x\": [ ]},]".into(),
            _ => self.servers(depth - 1, false),
        }
    }

    /// An object, with our entry among the others or not.
    fn servers(&mut self, depth: usize, ours: bool) -> String {
        let mut members: Vec<(String, String)> = (0..self.roll(4))
            .map(|n| (format!("k{n}"), self.value(depth)))
            .collect();
        if ours {
            let entry = "{\"command\": \"wharf\", \"args\": [\"stdio\"]}";
            members.insert(self.roll(members.len() + 1), (NAME.into(), entry.into()));
        }
        self.object(&members)
    }

    fn file(&mut self, ours: bool) -> String {
        let mut members: Vec<(String, String)> = (0..self.roll(3))
            .map(|n| (format!("m{n}"), self.value(2)))
            .collect();
        if ours || self.roll(4) > 0 {
            let servers = self.servers(2, ours);
            members.insert(self.roll(members.len() + 1), ("mcpServers".into(), servers));
        }
        format!("{}{}{}", self.gap(), self.object(&members), self.gap())
    }
}

#[test]
fn whatever_stands_around_it_an_entry_comes_and_goes_alone() {
    let client = named("cursor");
    let mut dice = Dice(11);
    for _ in 0..3000 {
        let before = dice.file(false);
        let edited =
            connect(client, &before, &stdio()).unwrap_or_else(|why| panic!("{why}:\n{before}"));
        let reading = read(client, &edited.text, "").unwrap();
        assert!(reading.has_ours());
        assert!(is_only_us(client, &before, &edited.text), "{before}");
        let gone = disconnect(client, &edited.text)
            .unwrap_or_else(|why| panic!("{why}:\n{}", edited.text));
        assert!(!read(client, &gone.text, "").unwrap().has_ours());

        let mixed = dice.file(true);
        let gone = disconnect(client, &mixed).unwrap_or_else(|why| panic!("{why}:\n{mixed}"));
        let count = |text: &str, what: &str| text.matches(what).count();
        for kept in ["// , }", "// é", "/*", "1.50e3", "\\u00e9"] {
            assert_eq!(
                count(&gone.text, kept),
                count(&mixed, kept),
                "{mixed}\n\n{}",
                gone.text
            );
        }
        let other =
            connect(client, &mixed, &stdio()).unwrap_or_else(|why| panic!("{why}:\n{mixed}"));
        assert_eq!(other.changes.len(), 1, "a value in place of a value");
    }
}
