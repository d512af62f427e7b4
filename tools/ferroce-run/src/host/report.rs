// SPDX-License-Identifier: GPL-2.0

//! The result as TAP or JUnit: of the tests that the command reports as TAP, or of the command as one test.

use std::io::{self, Write};
use std::time::Duration;

use quick_xml::events::{BytesDecl, BytesText, Event};
use quick_xml::Writer;

/// One test.
#[derive(Clone, Debug, PartialEq)]
struct Case {
    name: String,
    verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq)]
enum Verdict {
    Passed,
    Failed(String),
    Skipped(String),
}

/// Reads what the command prints.
#[derive(Default)]
pub struct Report {
    line: Vec<u8>,
    cases: Vec<Case>,
    /// Comments since the last test: a failure's explanation.
    comments: String,
}

/// Most of an explanation that is kept, in bytes.
const COMMENT_BYTES_MAX: usize = 64 << 10;

impl Report {
    /// Takes the next piece of the output.
    pub fn read(&mut self, bytes: &[u8]) {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(line);
            if line.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.read_line(String::from_utf8_lossy(&line).trim_end());
            }
        }
    }

    fn read_line(&mut self, line: &str) {
        match case(line) {
            Some(mut case) => {
                let comments = std::mem::take(&mut self.comments);
                if let Verdict::Failed(why) = &mut case.verdict {
                    *why = comments;
                }
                self.cases.push(case);
            }
            None if self.comments.len() < COMMENT_BYTES_MAX => {
                self.comments += line;
                self.comments.push('\n');
            }
            None => {}
        }
    }

    /// The tests, when the command has ended with this exit code.
    fn cases(&self, command: &str, code: i32) -> Vec<Case> {
        let verdict = match code {
            0 => Verdict::Passed,
            _ => Verdict::Failed(format!("exit code {code}\n{}", self.comments)),
        };
        let failed = self
            .cases
            .iter()
            .any(|case| matches!(case.verdict, Verdict::Failed(_)));
        let mut cases = self.cases.clone();
        // An exit code that no test accounts for is a failure of its own.
        if cases.is_empty() || (code != 0 && !failed) {
            cases.push(Case {
                name: command.into(),
                verdict,
            });
        }
        cases
    }

    /// Writes TAP.
    pub fn write_tap(&self, to: &mut impl Write, command: &str, code: i32) -> io::Result<()> {
        let cases = self.cases(command, code);
        writeln!(to, "TAP version 13\n1..{}", cases.len())?;
        for (number, case) in (1..).zip(&cases) {
            match &case.verdict {
                Verdict::Passed => writeln!(to, "ok {number} - {}", case.name)?,
                Verdict::Skipped(why) => writeln!(to, "ok {number} - {} # SKIP {why}", case.name)?,
                Verdict::Failed(why) => {
                    writeln!(to, "not ok {number} - {}", case.name)?;
                    why.lines().try_for_each(|line| writeln!(to, "# {line}"))?;
                }
            }
        }
        Ok(())
    }

    /// Writes what JUnit reads.
    pub fn write_junit(
        &self,
        to: &mut impl Write,
        command: &str,
        code: i32,
        time: Duration,
    ) -> io::Result<()> {
        let cases = self.cases(command, code);
        let count = |wanted: fn(&Verdict) -> bool| {
            cases
                .iter()
                .filter(|case| wanted(&case.verdict))
                .count()
                .to_string()
        };
        let failures = count(|verdict| matches!(verdict, Verdict::Failed(_)));
        let skipped = count(|verdict| matches!(verdict, Verdict::Skipped(_)));
        let mut writer = Writer::new_with_indent(&mut *to, b' ', 2);
        writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
        writer
            .create_element("testsuite")
            .with_attribute(("name", command))
            .with_attribute(("tests", cases.len().to_string().as_str()))
            .with_attribute(("failures", failures.as_str()))
            .with_attribute(("skipped", skipped.as_str()))
            .with_attribute(("time", format!("{:.3}", time.as_secs_f64()).as_str()))
            .write_inner_content(|writer| {
                cases
                    .iter()
                    .try_for_each(|case| write_case(writer, command, case))
            })?;
        writeln!(to)
    }
}

fn write_case(writer: &mut Writer<&mut impl Write>, command: &str, case: &Case) -> io::Result<()> {
    let element = writer
        .create_element("testcase")
        .with_attribute(("classname", command))
        .with_attribute(("name", &*case.name));
    match &case.verdict {
        Verdict::Passed => element.write_empty()?,
        Verdict::Skipped(why) => element.write_inner_content(|writer| {
            writer
                .create_element("skipped")
                .with_attribute(("message", why.as_str()))
                .write_empty()
                .map(|_| ())
        })?,
        Verdict::Failed(why) => element.write_inner_content(|writer| {
            writer
                .create_element("failure")
                .write_text_content(BytesText::new(&printable(why)))
                .map(|_| ())
        })?,
    };
    Ok(())
}

/// XML has no way to write most control characters.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_control() && c != '\n' && c != '\t' {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

/// The test that a line of TAP tells of.
fn case(line: &str) -> Option<Case> {
    let (rest, passed) = match line.strip_prefix("not ok") {
        Some(rest) => (rest, false),
        None => (line.strip_prefix("ok")?, true),
    };
    if !rest.is_empty() && !rest.starts_with(' ') {
        return None;
    }
    let rest = rest
        .trim_start()
        .trim_start_matches(|c: char| c.is_ascii_digit())
        .trim_start();
    let rest = rest.strip_prefix("- ").unwrap_or(rest);
    let (name, directive) = rest
        .split_once('#')
        .map_or((rest, ""), |(name, directive)| (name, directive.trim()));
    let upper = directive.to_ascii_uppercase();
    let verdict = if upper.starts_with("SKIP") {
        Verdict::Skipped(directive.get(4..).unwrap_or_default().trim().into())
    } else if passed || upper.starts_with("TODO") {
        Verdict::Passed
    } else {
        Verdict::Failed(String::new())
    };
    Some(Case {
        name: printable(name.trim()),
        verdict,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tap(output: &str, code: i32) -> String {
        let mut report = Report::default();
        // However it is cut.
        output
            .as_bytes()
            .chunks(3)
            .for_each(|piece| report.read(piece));
        let mut tap = Vec::new();
        report.write_tap(&mut tap, "make test", code).unwrap();
        String::from_utf8(tap).unwrap()
    }

    #[test]
    fn tests_of_the_command_are_ours() {
        let output = "TAP version 13\nok 1 one\nwhy not\nnot ok 2 - two\nok 3 three # SKIP no device\nokay\n1..3\n";
        let expected = "TAP version 13\n1..3\nok 1 - one\nnot ok 2 - two\n# why not\nok 3 - three # SKIP no device\n";
        assert_eq!(tap(output, 1), expected);
    }

    #[test]
    fn a_command_without_tests_is_one() {
        assert_eq!(
            tap("hello\n", 0),
            "TAP version 13\n1..1\nok 1 - make test\n"
        );
        assert!(tap("hello\n", 3).contains("not ok 1 - make test\n# exit code 3\n# hello\n"));
    }

    #[test]
    fn a_failure_that_no_test_tells_of_is_not_lost() {
        assert!(tap("ok 1 one\n", 139).contains("not ok 2 - make test\n# exit code 139"));
    }

    #[test]
    fn junit_is_xml_whatever_the_tests_are_called() {
        let mut report = Report::default();
        report.read(b"ok 1 a<b & \"c\"\n\x1b[31m]]>\nnot ok 2 <d>\n");
        let mut xml = Vec::new();
        report
            .write_junit(&mut xml, "a & b", 1, Duration::from_millis(1500))
            .unwrap();
        let text = String::from_utf8(xml).unwrap();
        assert!(
            text.contains(r#"tests="2" failures="1" skipped="0" time="1.500""#),
            "{text}"
        );
        let mut reader = quick_xml::Reader::from_str(&text);
        loop {
            if reader.read_event().unwrap() == Event::Eof {
                break;
            }
        }
        assert!(!text.contains('\x1b'));
    }
}
