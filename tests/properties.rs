//! Random rows and random requests: what [`Db`] answers, and what it leaves in the table, is what a model
//! says that is written here once more, from the table of operations alone.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use fencepost::{Answer, Db, Durability, ErrorKind, Job, Options, Refusal};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

type Table = BTreeMap<String, Job>;

/// A moment: one of a few, or one that the job's own end decides.
#[derive(Clone, Copy, Debug)]
enum At {
    Clock(f64),
    JustBeforeEnd,
    End,
    JustAfterEnd,
}

/// A fence: one of a few, or one that the job's own decides.
#[derive(Clone, Copy, Debug)]
enum Fence {
    Number(i64),
    Current,
    Former,
}

/// An owner: one of a few, or the job's own.
#[derive(Clone, Copy, Debug)]
enum Owner {
    Name(&'static str),
    Current,
}

#[derive(Clone, Debug)]
enum Request {
    Enqueue,
    State,
    Claim(Owner, At, f64),
    Renew(Owner, Fence, At, f64),
    Complete(Owner, Fence, At, Option<&'static str>),
    Release(Owner, Fence),
    ClaimMany(Vec<&'static str>, At, f64),
    /// Another program makes, changes or deletes the row.
    Put(Option<Job>),
}

#[derive(Clone, Debug, PartialEq)]
enum Said {
    Ok,
    Granted(i64),
    Nobody,
    Read(Job),
    Refused(Refusal),
    Failed(ErrorKind),
}

use Said::{Failed, Granted, Nobody, Read, Refused};

impl Said {
    fn of<T>(answer: Answer<T>, value: impl FnOnce(T) -> Said) -> Said {
        match answer {
            Ok(Ok(given)) => value(given),
            Ok(Err(refused)) => Refused(refused.reason()),
            Err(error) => Failed(error.kind()),
        }
    }
}

// --- what is asked ---

fn ids() -> impl Strategy<Value = &'static str> {
    select(vec!["a", "a", "A", "a ", ""])
}

fn names() -> impl Strategy<Value = &'static str> {
    select(vec!["w", "W", "w ", "", "작업자"])
}

fn owners() -> impl Strategy<Value = Owner> {
    prop_oneof![3 => Just(Owner::Current), 2 => names().prop_map(Owner::Name)]
}

/// Times of any clock, most of them around one moment.
fn times() -> impl Strategy<Value = f64> {
    let (ten, zero) = (10.0f64, 0.0f64);
    let near = vec![ten.next_down(), ten, ten.next_up(), 20.0, zero, -0.0, zero.next_up(), zero.next_down()];
    prop_oneof![
        4 => select(near),
        2 => select(vec![-10.0, -1.0, 0.1, 1.7e9, 9_007_199_254_740_992.0]),
        1 => select(vec![1e300, -1e300, f64::MAX, f64::MIN]),
        1 => any::<f64>().prop_filter("finite", |time| time.is_finite()),
    ]
}

fn moments() -> impl Strategy<Value = At> {
    prop_oneof![
        4 => times().prop_map(At::Clock),
        2 => Just(At::JustBeforeEnd),
        2 => Just(At::End),
        1 => Just(At::JustAfterEnd),
        1 => select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY]).prop_map(At::Clock),
    ]
}

fn ttls() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => select(vec![10.0, 1.0, 0.1, 1e-15, 5e-324, 1e300, f64::MAX]),
        1 => select(vec![0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]),
    ]
}

fn fences() -> impl Strategy<Value = Fence> {
    let numbers = select(vec![0, 1, 2, -1, i64::MIN, i64::MAX - 1, i64::MAX]);
    prop_oneof![4 => Just(Fence::Current), 2 => Just(Fence::Former), 2 => numbers.prop_map(Fence::Number)]
}

fn results() -> impl Strategy<Value = Option<&'static str>> {
    select(vec![None, Some(""), Some("r"), Some("it's \"결과\"\n🦊")])
}

/// A row that a correct program may have left, without its id.
fn rows() -> impl Strategy<Value = Job> {
    let owner = prop::option::weighted(0.8, names());
    let fence = select(vec![0, 1, 2, 1 << 53, i64::MAX - 1, i64::MAX]);
    (owner, times(), fence, results(), prop::bool::weighted(0.15)).prop_map(
        |(owner, until, fence, result, done)| Job {
            id: String::new(),
            owner: owner.map(str::to_owned),
            until,
            fence,
            result: result.map(str::to_owned),
            done,
        },
    )
}

fn requests() -> impl Strategy<Value = Request> {
    use Request::{Claim, ClaimMany, Complete, Enqueue, Put, Release, Renew, State};
    prop_oneof![
        2 => Just(Enqueue),
        1 => Just(State),
        6 => (owners(), moments(), ttls()).prop_map(|(owner, now, ttl)| Claim(owner, now, ttl)),
        6 => (owners(), fences(), moments(), ttls())
            .prop_map(|(owner, fence, now, ttl)| Renew(owner, fence, now, ttl)),
        4 => (owners(), fences(), moments(), results())
            .prop_map(|(owner, fence, now, result)| Complete(owner, fence, now, result)),
        3 => (owners(), fences()).prop_map(|(owner, fence)| Release(owner, fence)),
        1 => (prop::collection::vec(names(), 0..4), moments(), ttls())
            .prop_map(|(owners, now, ttl)| ClaimMany(owners, now, ttl)),
        4 => prop::option::weighted(0.9, rows()).prop_map(Put),
    ]
}

impl At {
    fn now(self, job: Option<&Job>) -> f64 {
        let end = job.map_or(10.0, |job| job.until);
        match self {
            At::Clock(time) => time,
            At::JustBeforeEnd => end.next_down(),
            At::End => end,
            At::JustAfterEnd => end.next_up(),
        }
    }
}

impl Fence {
    fn number(self, job: Option<&Job>) -> i64 {
        let current = job.map_or(1, |job| job.fence);
        match self {
            Fence::Number(number) => number,
            Fence::Current => current,
            Fence::Former => current - 1,
        }
    }
}

impl Owner {
    fn name(self, job: Option<&Job>) -> String {
        match self {
            Owner::Name(name) => name.to_owned(),
            Owner::Current => job.and_then(|job| job.owner.clone()).unwrap_or_default(),
        }
    }
}

// --- the model ---

fn is_lease(now: f64, ttl: f64) -> bool {
    now.is_finite() && ttl.is_finite() && ttl > 0.0 && (now + ttl).is_finite() && now + ttl > now
}

/// The first refusal that applies.
fn first(refusals: &[(bool, Refusal)]) -> Option<Said> {
    refusals.iter().find(|(applies, _)| *applies).map(|(_, refusal)| Refused(*refusal))
}

fn claim(job: &mut Job, owner: &str, now: f64, ttl: f64) -> Said {
    if let Some(refused) = first(&[(job.done, Refusal::Done), (job.until > now, Refusal::Held)]) {
        return refused;
    }
    if job.fence == i64::MAX {
        return Failed(ErrorKind::FenceExhausted);
    }
    job.owner = Some(owner.to_owned());
    job.until = now + ttl;
    job.fence += 1;
    Granted(job.fence)
}

/// The refusals of renew and complete; release, which asks for no running lease, has no `now`.
fn refused(job: &Job, owner: &str, fence: i64, now: Option<f64>) -> Option<Said> {
    first(&[
        (job.done, Refusal::Done),
        (job.owner.as_deref() != Some(owner) || job.fence != fence, Refusal::Stale),
        (now.is_some_and(|now| now >= job.until), Refusal::Expired),
    ])
}

/// What the request, which is valid, says of a row that is there, and does to it.
fn model(job: &mut Job, request: &Request) -> Said {
    let before = job.clone();
    let before = Some(&before);
    match request {
        Request::Enqueue => Refused(Refusal::Exists),
        Request::State => Read(job.clone()),
        Request::Claim(owner, now, ttl) => claim(job, &owner.name(before), now.now(before), *ttl),
        // Who of them wins is not the model's to say.
        Request::ClaimMany(_, now, ttl) => claim(job, "", now.now(before), *ttl),
        Request::Renew(owner, fence, now, ttl) => {
            let now = now.now(before);
            refused(job, &owner.name(before), fence.number(before), Some(now)).unwrap_or_else(|| {
                job.until = now + ttl;
                Said::Ok
            })
        }
        Request::Complete(owner, fence, now, result) => {
            let now = now.now(before);
            refused(job, &owner.name(before), fence.number(before), Some(now)).unwrap_or_else(|| {
                job.result = result.map(str::to_owned);
                job.done = true;
                Said::Ok
            })
        }
        Request::Release(owner, fence) => refused(job, &owner.name(before), fence.number(before), None)
            .unwrap_or_else(|| {
                job.owner = None;
                job.until = 0.0;
                Said::Ok
            }),
        Request::Put(_) => unreachable!(),
    }
}

fn model_of_table(table: &mut Table, id: &str, request: &Request) -> Said {
    let job = table.get(id);
    let valid = match request {
        Request::Claim(_, now, ttl) | Request::Renew(_, _, now, ttl) | Request::ClaimMany(_, now, ttl) => {
            is_lease(now.now(job), *ttl)
        }
        Request::Complete(_, _, now, _) => now.now(job).is_finite(),
        _ => true,
    };
    if !valid {
        return Failed(ErrorKind::InvalidArgument);
    }
    match (request, table.get_mut(id)) {
        (Request::ClaimMany(owners, ..), _) if owners.is_empty() => Nobody,
        (_, Some(job)) => model(job, request),
        (Request::Enqueue, None) => {
            let job = Job { id: id.to_owned(), owner: None, until: 0.0, fence: 0, result: None, done: false };
            table.insert(job.id.clone(), job);
            Said::Ok
        }
        (_, None) => Refused(Refusal::NotFound),
    }
}

// --- the library, and another program beside it ---

/// Asks the library. `job` is the row before, which some of the request's values stand in relation to. Of a
/// claim of many, the owner who was granted is given as well.
fn ask<'a>(db: &Db, id: &str, job: Option<&Job>, request: &'a Request) -> (Said, Option<&'a str>) {
    let done = |()| Said::Ok;
    let said = match request {
        Request::Enqueue => Said::of(db.enqueue(id), done),
        Request::State => Said::of(db.state(id), Read),
        Request::Claim(owner, now, ttl) => {
            Said::of(db.claim(id, &owner.name(job), now.now(job), *ttl), Granted)
        }
        Request::Renew(owner, fence, now, ttl) => {
            Said::of(db.renew(id, &owner.name(job), fence.number(job), now.now(job), *ttl), done)
        }
        Request::Complete(owner, fence, now, result) => {
            Said::of(db.complete(id, &owner.name(job), fence.number(job), now.now(job), *result), done)
        }
        Request::Release(owner, fence) => Said::of(db.release(id, &owner.name(job), fence.number(job)), done),
        Request::ClaimMany(owners, now, ttl) => {
            let mut winner = None;
            let said = Said::of(db.claim_many(id, owners, now.now(job), *ttl), |fences| {
                assert_eq!(fences.len(), owners.len());
                let granted: Vec<_> =
                    owners.iter().zip(fences).filter_map(|(owner, fence)| Some((*owner, fence?))).collect();
                match granted[..] {
                    [] => Nobody,
                    [(owner, fence)] => {
                        winner = Some(owner);
                        Granted(fence)
                    }
                    _ => panic!("more than one was granted: {granted:?}"),
                }
            });
            return (said, winner);
        }
        Request::Put(_) => unreachable!(),
    };
    (said, None)
}

fn put(sql: &rusqlite::Connection, table: &mut Table, id: &str, job: Option<&Job>) {
    sql.execute("DELETE FROM jobs WHERE id = ?1", [id]).unwrap();
    table.remove(id);
    if let Some(job) = job {
        let values = rusqlite::params![id, job.owner, job.until, job.fence, job.result, job.done];
        sql.execute("INSERT INTO jobs VALUES (?1, ?2, ?3, ?4, ?5, ?6)", values).unwrap();
        table.insert(id.to_owned(), Job { id: id.to_owned(), ..job.clone() });
    }
}

fn whole(sql: &rusqlite::Connection) -> Table {
    let mut rows = sql.prepare_cached("SELECT id, owner, until, fence, result, done FROM jobs").unwrap();
    let jobs = rows.query_map([], |row| {
        Ok(Job {
            id: row.get(0)?,
            owner: row.get(1)?,
            until: row.get(2)?,
            fence: row.get(3)?,
            result: row.get(4)?,
            done: row.get(5)?,
        })
    });
    jobs.unwrap().map(|job| job.map(|job| (job.id.clone(), job)).unwrap()).collect()
}

/// A request's name and what it was told, for the list of what was seen.
fn kind(request: &Request, said: &Said) -> (String, String) {
    let word = |debug: String| debug.split(['(', '[', ' ']).next().unwrap_or_default().to_owned();
    let said = match said {
        Refused(refusal) => format!("{refusal:?}"),
        Failed(kind) => format!("{kind:?}"),
        value => word(format!("{value:?}")),
    };
    (word(format!("{request:?}")), said)
}

/// All that the operations may be told.
const EVERY_ANSWER: &[(&str, &[&str])] = &[
    ("Enqueue", &["Ok", "Exists"]),
    ("State", &["Read", "NotFound"]),
    ("Claim", &["Granted", "NotFound", "Done", "Held", "FenceExhausted", "InvalidArgument"]),
    ("Renew", &["Ok", "NotFound", "Done", "Stale", "Expired", "InvalidArgument"]),
    ("Complete", &["Ok", "NotFound", "Done", "Stale", "Expired", "InvalidArgument"]),
    ("Release", &["Ok", "NotFound", "Done", "Stale"]),
    ("ClaimMany", &["Granted", "Nobody", "NotFound", "Done", "Held", "FenceExhausted", "InvalidArgument"]),
];

#[test]
fn the_library_answers_and_stores_what_the_table_of_operations_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    // No syncs: this is about the rules.
    let options = Options { durability: Durability::Normal, ..Options::default() };
    let handles = [Db::open(&path, &options).unwrap(), Db::open(&path, &options).unwrap()];
    handles[0].init_db().unwrap();
    let sql = rusqlite::Connection::open(&path).unwrap();
    sql.pragma_update(None, "synchronous", "OFF").unwrap();

    let seen = RefCell::new(BTreeSet::new());
    let run = |steps: Vec<(bool, &'static str, Request)>| {
        sql.execute("DELETE FROM jobs", []).unwrap();
        let mut table = Table::new();
        for (handle, id, request) in &steps {
            if let Request::Put(job) = request {
                put(&sql, &mut table, id, job.as_ref());
                continue;
            }
            let before = table.get(*id).cloned();
            let expected = model_of_table(&mut table, id, request);
            let (said, winner) = ask(&handles[usize::from(*handle)], id, before.as_ref(), request);
            if let (Some(winner), Some(job)) = (winner, table.get_mut(*id)) {
                job.owner = Some(winner.to_owned());
            }
            prop_assert_eq!(&said, &expected, "{:?} on {:?}", request, before);
            prop_assert_eq!(&whole(&sql), &table, "after {:?} on {:?}", request, before);
            seen.borrow_mut().insert(kind(request, &said));
        }
        Ok::<(), TestCaseError>(())
    };

    // Always the same requests: a failure that comes and goes helps nobody.
    let config = Config { cases: 600, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let steps = prop::collection::vec((any::<bool>(), ids(), requests()), 1..40);
    if let Err(failure) = runner.run(&steps, run) {
        panic!("{failure}");
    }

    let every: BTreeSet<_> = EVERY_ANSWER
        .iter()
        .flat_map(|(request, answers)| answers.iter().map(|said| (request.to_string(), said.to_string())))
        .collect();
    assert_eq!(seen.into_inner(), every, "the requests are too few to meet every answer");
}
