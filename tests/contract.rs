//! The contract data of `tests/contract/`, run through the Rust API. The format is in its README.md.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use fencepost::{Answer, Condition, Db, Error, ErrorKind, Lease, Options, Refusal};

#[derive(Clone, Debug, PartialEq)]
enum Word {
    Text(String),
    Bare(String),
    List(Vec<String>),
    /// Only in answers: in a file it is as bare as any number.
    Double(f64),
}

use Word::{Bare, Double, List, Text};

impl Word {
    fn text(&self) -> &str {
        let Text(text) = self else { panic!("{self:?} is not a string") };
        text
    }

    fn optional_text(&self) -> Option<&str> {
        if *self == Bare("null".to_owned()) { None } else { Some(self.text()) }
    }

    fn list(&self) -> Vec<&str> {
        let List(list) = self else { panic!("{self:?} is not a list") };
        list.iter().map(String::as_str).collect()
    }

    fn number<T: std::str::FromStr>(&self) -> T {
        let Bare(word) = self else { panic!("{self:?} is not a number") };
        word.parse().unwrap_or_else(|_| panic!("{word} is not a number"))
    }
}

/// The words of a line.
fn words(line: &str) -> Vec<Word> {
    let mut rest = line.trim_start();
    let mut words = Vec::new();
    let mut list: Option<Vec<String>> = None;
    while !rest.is_empty() {
        let word = if let Some(after) = rest.strip_prefix('"') {
            let (text, after) = string(after);
            rest = after;
            Text(text)
        } else {
            let (word, after) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
            rest = after;
            Bare(word.to_owned())
        };
        match (word, &mut list) {
            (Bare(bracket), None) if bracket == "[" => list = Some(Vec::new()),
            (Bare(bracket), Some(_)) if bracket == "]" => words.push(List(list.take().unwrap())),
            (Text(text), Some(list)) => list.push(text),
            (word, None) => words.push(word),
            (word, Some(_)) => panic!("{word:?} in a list"),
        }
        rest = rest.trim_start();
    }
    assert!(list.is_none(), "a list without its end");
    words
}

/// The string that begins after a quote, and what follows it.
fn string(line: &str) -> (String, &str) {
    let mut text = String::new();
    let mut characters = line.char_indices();
    let end = loop {
        match characters.next().expect("a string without its end").1 {
            '"' => break characters.offset(),
            '\\' => text.push(match characters.next().expect("a string without its end").1 {
                'n' => '\n',
                't' => '\t',
                same @ ('"' | '\\') => same,
                other => panic!("\\{other} is no escape"),
            }),
            other => text.push(other),
        }
    };
    let rest = &line[end..];
    match rest.strip_prefix('*') {
        None => (text, rest),
        Some(times) => {
            let (times, rest) = times.split_at(times.find(' ').unwrap_or(times.len()));
            (text.repeat(times.parse().expect("a number of times")), rest)
        }
    }
}

fn status(name: &str) -> Vec<Word> {
    vec![Bare(name.to_owned())]
}

/// An answer as the words that the data expects.
fn answer<T>(answer: Answer<T>, values: impl FnOnce(T) -> Vec<Word>) -> Vec<Word> {
    match answer {
        Ok(Ok(value)) => [status("OK"), values(value)].concat(),
        Ok(Err(refused)) => status(match refused.reason() {
            Refusal::Exists => "EXISTS",
            Refusal::NotFound => "NOT_FOUND",
            Refusal::Held => "HELD",
            Refusal::Done => "DONE",
            Refusal::Stale => "STALE",
            Refusal::Expired => "EXPIRED",
            other => panic!("no word for {other:?}"),
        }),
        Err(error) => failure(&error),
    }
}

fn failure(error: &Error) -> Vec<Word> {
    status(match error.kind() {
        ErrorKind::InvalidArgument => "INVALID_ARGUMENT",
        ErrorKind::Schema => "SCHEMA",
        ErrorKind::Corrupt => "CORRUPT",
        ErrorKind::FenceExhausted => "FENCE_EXHAUSTED",
        _ => panic!("{error}"),
    })
}

fn granted(grant: Lease) -> Vec<Word> {
    vec![Text(grant.id), Bare(grant.fence.to_string())]
}

fn condition(word: &Word) -> Condition {
    match word {
        Bare(word) if word == "claimable" => Condition::Claimable,
        Bare(word) if word == "held" => Condition::Held,
        Bare(word) if word == "delayed" => Condition::Delayed,
        Bare(word) if word == "done" => Condition::Done,
        Bare(word) if word == "broken" => Condition::Broken,
        other => panic!("{other:?} is no condition"),
    }
}

fn none<T>(_: T) -> Vec<Word> {
    Vec::new()
}

fn optional(text: Option<String>) -> Word {
    text.map_or(Bare("null".to_owned()), Text)
}

/// Whether an answer is what was expected; doubles are compared as numbers.
fn same(expected: &Word, given: &Word) -> bool {
    match (expected, given) {
        (Bare(expected), Double(given)) => expected.parse() == Ok(*given),
        _ => expected == given,
    }
}

/// Says where a panic came from.
struct Place<'a> {
    path: &'a Path,
    number: usize,
    line: &'a str,
}

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {:.200}", self.path.display(), self.number, self.line)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{self}");
        }
    }
}

/// One case: a folder and a handle of its own.
struct Case {
    folder: tempfile::TempDir,
    db: Option<Db>,
}

impl Case {
    fn new() -> Case {
        let mut case = Case { folder: tempfile::tempdir().unwrap(), db: None };
        case.open();
        case.db().init_db().unwrap();
        case
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("jobs.db")
    }

    fn open(&mut self) {
        self.db = None;
        self.db = Some(Db::open(self.path(), &Options::default()).unwrap());
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    /// What another program prints, through another copy of SQLite.
    fn sql(&self, statement: &str) -> Vec<Word> {
        let run =
            Command::new("sqlite3").arg(self.path()).arg(statement).output().expect("the sqlite3 command");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let printed = String::from_utf8(run.stdout).unwrap();
        vec![Text(printed.strip_suffix('\n').unwrap_or(&printed).to_owned())]
    }

    fn step(&mut self, step: &str, arguments: &[Word]) -> Vec<Word> {
        match (step, arguments) {
            ("reopen", []) => {
                self.open();
                Vec::new()
            }
            ("sql", [statement]) => self.sql(statement.text()),
            ("init_db", []) => answer(self.db().init_db().map(Ok), none),
            ("enqueue", [id]) => answer(self.db().enqueue(id.text()), none),
            ("state", [id]) => answer(self.db().state(id.text()), |job| {
                vec![
                    Text(job.id),
                    optional(job.owner),
                    Double(job.until),
                    Bare(job.fence.to_string()),
                    optional(job.result),
                    Bare(job.done.to_string()),
                ]
            }),
            ("claim", [id, owner, now, ttl]) => {
                let claimed = self.db().claim(id.text(), owner.text(), now.number(), ttl.number());
                answer(claimed, |fence| status(&fence.to_string()))
            }
            ("renew", [id, owner, fence, now, ttl]) => answer(
                self.db().renew(id.text(), owner.text(), fence.number(), now.number(), ttl.number()),
                none,
            ),
            ("complete", [id, owner, fence, now, result]) => {
                let result = result.optional_text();
                answer(
                    self.db().complete(id.text(), owner.text(), fence.number(), now.number(), result),
                    none,
                )
            }
            ("release", [id, owner, fence]) => {
                answer(self.db().release(id.text(), owner.text(), fence.number()), none)
            }
            ("enqueue_at", [id, not_before]) => {
                answer(self.db().enqueue_at(id.text(), not_before.number()), none)
            }
            ("enqueue_many", [ids]) => answer(self.db().enqueue_many(&ids.list()), |added| {
                added.into_iter().map(|added| Bare(added.to_string())).collect()
            }),
            ("release_at", [id, owner, fence, not_before]) => {
                let not_before = not_before.number();
                answer(self.db().release_at(id.text(), owner.text(), fence.number(), not_before), none)
            }
            ("claim_next", [owner, now, ttl]) => {
                answer(self.db().claim_next(owner.text(), now.number(), ttl.number()), granted)
            }
            ("claim_batch", [owner, now, ttl, max]) => answer(
                self.db().claim_batch(owner.text(), now.number(), ttl.number(), max.number()),
                |grants| grants.into_iter().flat_map(granted).collect(),
            ),
            ("complete_and_claim_next", [id, owner, fence, now, result, ttl]) => answer(
                self.db().complete_and_claim_next(
                    id.text(),
                    owner.text(),
                    fence.number(),
                    now.number(),
                    result.optional_text(),
                    ttl.number(),
                ),
                |next| next.map_or(status("none"), granted),
            ),
            ("force_release", [id]) => {
                answer(self.db().force_release(id.text()), |fence| status(&fence.to_string()))
            }
            ("requeue", [id]) => answer(self.db().requeue(id.text()), none),
            ("purge", [before, max]) => {
                answer(self.db().purge(before.number(), max.number()).map(Ok), |purged| {
                    status(&purged.to_string())
                })
            }
            ("raise_floor", [to]) => answer(self.db().raise_floor(to.number()).map(Ok), none),
            ("count", [which, now]) => {
                answer(self.db().count(condition(which), now.number()).map(Ok), |count| {
                    status(&count.to_string())
                })
            }
            ("list", [which, now, after, max]) => answer(
                self.db().list(condition(which), now.number(), after.optional_text(), max.number()).map(Ok),
                |jobs| jobs.into_iter().map(|job| Text(job.id)).collect(),
            ),
            ("claim_many", [id, owners, now, ttl]) => {
                let owners = owners.list();
                let claimed = self.db().claim_many(id.text(), &owners, now.number(), ttl.number());
                answer(claimed, |fences| {
                    assert_eq!(fences.len(), owners.len());
                    let granted: Vec<_> = fences.into_iter().flatten().collect();
                    assert_eq!(granted.len(), owners.len().min(1), "{granted:?}");
                    status(&granted.first().map_or("none".to_owned(), i64::to_string))
                })
            }
            _ => panic!("no step {step} with {} arguments", arguments.len()),
        }
    }
}

/// Runs a file and returns how many steps it had.
fn run(path: &Path, failures: &mut String) -> usize {
    let data = std::fs::read_to_string(path).unwrap();
    let mut case: Option<Case> = None;
    let mut steps = 0;
    for (index, line) in data.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = Place { path, number: index + 1, line };
        let mut given = words(line);
        let arrow = given.iter().position(|word| *word == Bare("=>".to_owned()));
        let expected = arrow.map_or(Vec::new(), |arrow| given.split_off(arrow)[1..].to_vec());
        let Bare(step) = given.remove(0) else { panic!("a line begins with a step") };
        if step == "case" {
            assert!(matches!(&given[..], [Text(_)]) && expected.is_empty(), "a case has a name and no more");
            case = Some(Case::new());
            continue;
        }
        let answered = case.as_mut().expect("a case first").step(&step, &given);
        steps += 1;
        let right = answered.len() == expected.len()
            && expected.iter().zip(&answered).all(|(expected, given)| same(expected, given));
        if !right {
            writeln!(failures, "{place}\n  answered {answered:.200?}").unwrap();
        }
    }
    steps
}

#[test]
fn the_contract_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/contract");
    let mut failures = String::new();
    let mut steps = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "contract") {
            steps += run(&path, &mut failures);
        }
    }
    assert!(steps > 0, "no contract data");
    assert!(failures.is_empty(), "\n{failures}");
}
